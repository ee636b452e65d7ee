"""Small files of every form that readers take, and of forms that several could take by mistake."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from concord.workers.corpus.readers.reader import SourceForm


class MadeForm(NamedTuple):
    """Files of one form.

    - ``files``: content by name; several are a folder.
    - ``form``: what is known of the first of them for certain.
    - ``readers``: readers that read it without options, all ``documents`` of it.
    - ``spans``: spans of its gold; of plain types, tokens with one.
    """

    title: str
    files: dict[str, str]
    form: SourceForm | None
    readers: set[str]
    documents: int = 1
    spans: int = 1

    def write(self, folder: Path) -> Path:
        """Writes the files; returns the only one, or the folder."""
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_text(content)
        return folder if len(self.files) > 1 else folder / next(iter(self.files))


SPAN = '{"text": "Ann went to Oslo.", %s}\n'
UNREAD = [
    MadeForm(
        "WebAnno",
        {"a.tsv": "#FORMAT=WebAnno TSV 3.3\n\n\n#Text=Ann ran\n1-1\t0-3\tAnn\t*\tPER[1]\t\n1-2\t4-7\tran\t_\t_\t\n"},
        SourceForm.WEBANNO,
        set(),
    ),
    MadeForm(
        "WebAnno without its first line",
        {"a.txt": "#Text=Ann ran\n1-1\t0-3\tAnn\tPER[1]\n1-2\t4-7\tran\t_\n"},
        SourceForm.WEBANNO,
        set(),
    ),
    MadeForm(
        "UIMA CAS in JSON",
        {"a.json": '{"%TYPES": {}, "%FEATURE_STRUCTURES": [{"%ID": 1, "sofaString": "Ann ran."}]}'},
        SourceForm.UIMA,
        set(),
    ),
    MadeForm(
        "UIMA CAS in XMI",
        {"a.xmi": '<?xml version="1.0"?><xmi:XMI xmlns:xmi="http://www.omg.org/XMI"><a/></xmi:XMI>'},
        SourceForm.UIMA,
        set(),
    ),
    MadeForm("BMES", {"a.txt": "A B-ORG\nB M-ORG\nC E-ORG\nd O\n\nE S-PER\n"}, SourceForm.BMES, set(), spans=2),
    MadeForm(
        "CoNLL-2012",
        {"a.conll": "#begin document (a/b); part 000\na 0 0 Ann NNP (S* - (PER* (1\na 0 1 Lee NNP *) - *) 1)\n"},
        SourceForm.BRACKETS,
        set(),
    ),
    MadeForm(
        "words with slashes",
        {"a.txt": "12/number 1/2/number Main/road Oslo/city\n\n3/number Fir/road\n"},
        SourceForm.SLASHED,
        set(),
        spans=6,
    ),
    MadeForm(
        "inline tags",
        {"a.txt": "<PER>Ann Lee</PER> of <ORG>Fir Ltd</ORG> ran.\nThen <PER>she</PER> fell.\n"},
        SourceForm.INLINE_TAGS,
        set(),
        spans=3,
    ),
    MadeForm(
        "inline tags in small letters", {"a.txt": "Ann saw <city>New York</city> ."}, SourceForm.INLINE_TAGS, set()
    ),
    MadeForm("brackets alone", {"a.txt": "Ann (PER*\nLee *)\nran *\n\nOslo (GPE)\n"}, SourceForm.BRACKETS, set()),
    MadeForm(
        "DataTurks",
        {
            "a.json": '{"content": "Ann ran.", "annotation": [{"label": ["PER"], "points": '
            '[{"start": 0, "end": 2, "text": "Ann"}]}], "extras": null}\n'
        },
        SourceForm.DATATURKS,
        set(),
    ),
    MadeForm(
        "i2b2's stand-off tags",
        {
            "a.xml": '<?xml version="1.0"?>\n<deIdi2b2>\n<TEXT><![CDATA[Ann ran.]]></TEXT>\n<TAGS>\n'
            '<NAME id="P0" start="0" end="3" text="Ann" TYPE="PATIENT"/>\n</TAGS>\n</deIdi2b2>\n'
        },
        SourceForm.STAND_OFF,
        set(),
    ),
    MadeForm(
        "i2b2's concepts",
        {"a.con": 'c="Ann" 1:0 1:0||t="person"\nc="Lee" 1:3 1:3||t="name"\n', "a.txt": "Ann met Mr. Lee .\n"},
        SourceForm.I2B2,
        set(),
    ),
    MadeForm(
        "Comprehend",
        {"a.jsonl": '{"Entities": [{"BeginOffset": 0, "EndOffset": 3, "Text": "Ann", "Type": "PERSON"}]}\n'},
        SourceForm.COMPREHEND,
        set(),
    ),
    MadeForm(
        "GROBID's results",
        {
            "a.tei.xml": '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader/><text><back><listBibl><biblStruct>'
            "<analytic><title>Rain</title><author><persName><forename>A</forename><surname>Lee</surname></persName>"
            "</author></analytic></biblStruct></listBibl></back></text></TEI>"
        },
        SourceForm.GROBID_RESULT,
        set(),
    ),
    MadeForm(
        "Kaggle's words",
        {"a.csv": "Sentence #,Word,POS,Tag\nSentence: 1,Ann,NNP,B-per\n,ran,VBD,O\nSentence: 2,Oslo,NNP,B-geo\n"},
        SourceForm.CSV_WORDS,
        set(),
    ),
    MadeForm(
        "words under the names of texts",
        {"a.csv": "id;text;labels\n1;Ann;B-per\n2;ran;O\n"},
        SourceForm.CSV_WORDS,
        set(),
    ),
    MadeForm(
        "Label Studio's CSV",
        {"a.csv": 'id,label,text\n1,"[{""start"":0,""end"":3,""labels"":[""PER""]}]",Ann ran.\n2,,So.\n'},
        SourceForm.CSV_LABELS,
        set(),
    ),
    MadeForm("lists in CSV", {"a.csv": "text,tags\n\"Ann ran\",\"['B-PER', 'O']\"\n"}, SourceForm.CSV_LABELS, set()),
]
"""Forms that no reader takes."""
FOREIGN = [
    MadeForm(
        "AnyStyle",
        {"a.xml": "<dataset>\n<sequence>\n<author>Lee, A.</author>\n<title>Rain.</title>\n</sequence>\n</dataset>\n"},
        SourceForm.XML,
        {"xml"},
        spans=2,
    ),
    MadeForm(
        "AnyStyle, a field a line, as text",
        {
            "a.txt": "<?xml version='1.0'?>\n<dataset><sequence>\n<author>Lee</author>\n<title>Rain</title>\n"
            "</sequence></dataset>"
        },
        SourceForm.XML,
        {"xml"},
        spans=2,
    ),
    MadeForm(
        "GROBID",
        {
            "b.tei.xml": '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><listBibl>\n<bibl><author>Lee</author>, '
            "<title>Rain</title>.<lb/></bibl></listBibl></text></TEI>"
        },
        SourceForm.XML,
        {"xml"},
        spans=2,
    ),
    MadeForm(
        "parserator",
        {
            "a.xml": "<AddressCollection><AddressString><AddressNumber>12</AddressNumber> <StreetName>Hill</StreetName>"
            "</AddressString><AddressString><PlaceName>Oslo</PlaceName></AddressString></AddressCollection>"
        },
        SourceForm.XML,
        {"xml"},
        2,
        spans=3,
    ),
    MadeForm("doccano", {"a.jsonl": SPAN % '"id": 7, "label": [[0, 3, "PER"]]'}, SourceForm.SPANS, {"spans"}),
    MadeForm(
        "Presidio",
        {"a.json": SPAN % '"results": [{"entity_type": "P", "start": 0, "end": 3, "score": 1}]'},
        SourceForm.SPANS,
        {"spans"},
    ),
    MadeForm(
        "Label Studio",
        {
            "tasks.json": '[{"id": 1, "data": {"text": "Ann ran."}, "annotations": [{"result": [{"type": "labels", '
            '"value": {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}}]}]}]'
        },
        SourceForm.SPANS,
        {"spans"},
    ),
    MadeForm(
        "GLiNER's training",
        {"a.json": '[{"tokenized_text": ["Ann", "ran"], "ner": [[0, 0, "person"]]}]'},
        SourceForm.SPANS,
        {"spans"},
    ),
    MadeForm("JSON as .txt", {"a.txt": SPAN % '"entities": [[0, 3, "PER"]]'}, SourceForm.SPANS, {"spans"}),
    MadeForm(
        "texts in JSON",
        {"a.jsonl": '{"id": "x", "text": "Ann ran."}\n{"id": "y", "text": "So."}\n'},
        SourceForm.TEXTS,
        {"text"},
        2,
        spans=0,
    ),
    MadeForm("brat", {"a.ann": "T1\tPER 0 3\tAnn\n", "a.txt": "Ann ran.\n"}, SourceForm.BRAT, {"spans"}),
    MadeForm(
        "CoNLL-U",
        {"a.conllu": "# newdoc\n# text = Ann\n1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER\n"},
        SourceForm.CONLLU,
        {"conllu"},
    ),
    MadeForm(
        "CoNLL-2003",
        {"eng.txt": "-DOCSTART- -X- O O\n\nAnn NNP I-NP I-PER\nran VBD I-VP O\n"},
        SourceForm.CONLL,
        {"conll"},
    ),
    MadeForm("two columns", {"a.txt": "Ann B-PER\nran O\n\nso O\n"}, SourceForm.COLUMNS, {"columns"}, 2),
    MadeForm("three columns between blanks", {"a.txt": "Ann NNP B-PER\nran VBD O\n"}, SourceForm.COLUMNS, set()),
    MadeForm("three columns between tabs", {"a.txt": "Ann\tNNP\tB-PER\nran\tVBD\tO\n"}, SourceForm.COLUMNS, set()),
    MadeForm("words with blanks", {"a.tsv": "New York\tB-LOC\nwon\tO\n"}, SourceForm.COLUMNS, set()),
    MadeForm(
        "labels without a prefix",
        {"a.txt": "Ann PER\nran O\nto O\nOslo LOC\n"},
        SourceForm.PLAIN_COLUMNS,
        set(),
        spans=2,
    ),
    MadeForm(
        "UMass",
        {"a.parsed": "B. d d B-who/U-last\n, d d I-who\n\nOslo d d B-venue/U-place\n"},
        SourceForm.NESTED,
        {"umass"},
        2,
        spans=3,
    ),
    MadeForm(
        "citations in columns",
        {"a.txt": "B.\tauthor\tf\nRain\ttitle\tf|g\n\nOslo\tplace\tf\n"},
        SourceForm.TABLE,
        {"citations"},
        2,
        spans=3,
    ),
    MadeForm(
        "citations in columns, features with bars",
        {"a.txt": "B.\tauthor\tb|NN\nRain\ttitle\tr|VB\n\nOslo\tplace\to|NN\n"},
        SourceForm.TABLE,
        {"citations"},
        2,
        spans=3,
    ),
    MadeForm(
        "citations in tags",
        {"a.txt": "<author> B. </author> <title> Rain </title>\n"},
        SourceForm.TAGGED_LINES,
        {"citations"},
        spans=3,
    ),
    MadeForm(
        "addresses", {"a.tagged": "12 |1\nHill, |3\n\nOslo, |5\n"}, SourceForm.ADDRESSES, {"addresses"}, 2, spans=5
    ),
    MadeForm("mail", {"a.txt": "Who: <speaker>Ann Lee</speaker>\nat noon\n"}, SourceForm.MAIL, {"mail"}),
    MadeForm(
        "PubTator", {"a.txt": "1|t|Salt.\n1|a|Rust.\n1\t0\t4\tSalt\tChemical\tD1\n"}, SourceForm.PUBTATOR, {"pubtator"}
    ),
    MadeForm("CSV", {"a.csv": 'id,text\n1,"Ann ran, so."\n'}, SourceForm.CSV, {"text"}, spans=0),
    *UNREAD,
    MadeForm("labels alone", {"labels.txt": "O\nB-PER\nI-PER\n<pad>\n"}, SourceForm.LABEL_LIST, set()),
]
"""Each form, and the readers that take it as it is."""
