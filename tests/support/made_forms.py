"""Small files of every form that readers take, and of forms that several could take by mistake."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class MadeForm(NamedTuple):
    """Files of one form.

    - ``files``: content by name; several are a folder.
    - ``form``: title of the form that the first of them has for certain.
    - ``readers``: readers that read it without options, all ``documents`` of it.
    - ``spans``: spans of its gold; of plain types, tokens with one.
    """

    title: str
    files: dict[str, str]
    form: str
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
        "WebAnno TSV",
        set(),
    ),
    MadeForm(
        "WebAnno without its first line",
        {"a.txt": "#Text=Ann ran\n1-1\t0-3\tAnn\tPER[1]\n1-2\t4-7\tran\t_\n"},
        "WebAnno TSV",
        set(),
    ),
    MadeForm(
        "UIMA CAS in JSON",
        {"a.json": '{"%TYPES": {}, "%FEATURE_STRUCTURES": [{"%ID": 1, "sofaString": "Ann ran."}]}'},
        "a UIMA CAS",
        set(),
    ),
    MadeForm(
        "UIMA CAS in XMI",
        {"a.xmi": '<?xml version="1.0"?><xmi:XMI xmlns:xmi="http://www.omg.org/XMI"><a/></xmi:XMI>'},
        "a UIMA CAS",
        set(),
    ),
    MadeForm("BMES", {"a.txt": "A B-ORG\nB M-ORG\nC E-ORG\nd O\n\nE S-PER\n"}, "a column file in BMES", set(), spans=2),
    MadeForm(
        "CoNLL-2012",
        {"a.conll": "#begin document (a/b); part 000\na 0 0 Ann NNP (S* - (PER* (1\na 0 1 Lee NNP *) - *) 1)\n"},
        "a column file with brackets, as CoNLL-2012's",
        set(),
    ),
    MadeForm(
        "words with slashes",
        {"a.txt": "12/number 1/2/number Main/road Oslo/city\n\n3/number Fir/road\n"},
        "a text of words with a slash and a label, as libpostal's",
        set(),
        spans=6,
    ),
    MadeForm(
        "inline tags",
        {"a.txt": "<PER>Ann Lee</PER> of <ORG>Fir Ltd</ORG> ran.\nThen <PER>she</PER> fell.\n"},
        "a text with inline tags",
        set(),
        spans=3,
    ),
    MadeForm(
        "inline tags in small letters", {"a.txt": "Ann saw <city>New York</city> ."}, "a text with inline tags", set()
    ),
    MadeForm(
        "brackets alone",
        {"a.txt": "Ann (PER*\nLee *)\nran *\n\nOslo (GPE)\n"},
        "a column file with brackets, as CoNLL-2012's",
        set(),
    ),
    MadeForm(
        "DataTurks",
        {
            "a.json": '{"content": "Ann ran.", "annotation": [{"label": ["PER"], "points": '
            '[{"start": 0, "end": 2, "text": "Ann"}]}], "extras": null}\n'
        },
        "DataTurks' JSON",
        set(),
    ),
    MadeForm(
        "i2b2's stand-off tags",
        {
            "a.xml": '<?xml version="1.0"?>\n<deIdi2b2>\n<TEXT><![CDATA[Ann ran.]]></TEXT>\n<TAGS>\n'
            '<NAME id="P0" start="0" end="3" text="Ann" TYPE="PATIENT"/>\n</TAGS>\n</deIdi2b2>\n'
        },
        "XML of a text with stand-off tags, as i2b2's",
        set(),
    ),
    MadeForm(
        "i2b2's concepts",
        {"a.con": 'c="Ann" 1:0 1:0||t="person"\nc="Lee" 1:3 1:3||t="name"\n', "a.txt": "Ann met Mr. Lee .\n"},
        "i2b2's note with concepts beside it",
        set(),
    ),
    MadeForm(
        "Comprehend",
        {"a.jsonl": '{"Entities": [{"BeginOffset": 0, "EndOffset": 3, "Text": "Ann", "Type": "PERSON"}]}\n'},
        "output of AWS Comprehend",
        set(),
    ),
    MadeForm(
        "GROBID's results",
        {
            "a.tei.xml": '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader/><text><back><listBibl><biblStruct>'
            "<analytic><title>Rain</title><author><persName><forename>A</forename><surname>Lee</surname></persName>"
            "</author></analytic></biblStruct></listBibl></back></text></TEI>"
        },
        "TEI of GROBID's results",
        set(),
    ),
    MadeForm(
        "Kaggle's words",
        {"a.csv": "Sentence #,Word,POS,Tag\nSentence: 1,Ann,NNP,B-per\n,ran,VBD,O\nSentence: 2,Oslo,NNP,B-geo\n"},
        "a CSV file of a word a row",
        set(),
    ),
    MadeForm(
        "words under the names of texts",
        {"a.csv": "id;text;labels\n1;Ann;B-per\n2;ran;O\n"},
        "a CSV file of a word a row",
        set(),
    ),
    MadeForm(
        "Label Studio's CSV",
        {"a.csv": 'id,label,text\n1,"[{""start"":0,""end"":3,""labels"":[""PER""]}]",Ann ran.\n2,,So.\n'},
        "a CSV file with lists in a column, which look like labels",
        set(),
    ),
    MadeForm(
        "lists in CSV",
        {"a.csv": "text,tags\n\"Ann ran\",\"['B-PER', 'O']\"\n"},
        "a CSV file with lists in a column, which look like labels",
        set(),
    ),
]
"""Forms that no reader takes."""
FOREIGN = [
    MadeForm(
        "AnyStyle",
        {"a.xml": "<dataset>\n<sequence>\n<author>Lee, A.</author>\n<title>Rain.</title>\n</sequence>\n</dataset>\n"},
        "XML",
        {"xml"},
        spans=2,
    ),
    MadeForm(
        "AnyStyle, a field a line, as text",
        {
            "a.txt": "<?xml version='1.0'?>\n<dataset><sequence>\n<author>Lee</author>\n<title>Rain</title>\n"
            "</sequence></dataset>"
        },
        "XML",
        {"xml"},
        spans=2,
    ),
    MadeForm(
        "GROBID",
        {
            "b.tei.xml": '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><listBibl>\n<bibl><author>Lee</author>, '
            "<title>Rain</title>.<lb/></bibl></listBibl></text></TEI>"
        },
        "XML",
        {"xml"},
        spans=2,
    ),
    MadeForm(
        "parserator",
        {
            "a.xml": "<AddressCollection><AddressString><AddressNumber>12</AddressNumber> <StreetName>Hill</StreetName>"
            "</AddressString><AddressString><PlaceName>Oslo</PlaceName></AddressString></AddressCollection>"
        },
        "XML",
        {"xml"},
        2,
        spans=3,
    ),
    MadeForm("doccano", {"a.jsonl": SPAN % '"id": 7, "label": [[0, 3, "PER"]]'}, "JSON of texts with spans", {"spans"}),
    MadeForm(
        "Presidio",
        {"a.json": SPAN % '"results": [{"entity_type": "P", "start": 0, "end": 3, "score": 1}]'},
        "JSON of texts with spans",
        {"spans"},
    ),
    MadeForm(
        "Label Studio",
        {
            "tasks.json": '[{"id": 1, "data": {"text": "Ann ran."}, "annotations": [{"result": [{"type": "labels", '
            '"value": {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}}]}]}]'
        },
        "JSON of texts with spans",
        {"spans"},
    ),
    MadeForm(
        "GLiNER's training",
        {"a.json": '[{"tokenized_text": ["Ann", "ran"], "ner": [[0, 0, "person"]]}]'},
        "JSON of texts with spans",
        {"spans"},
    ),
    MadeForm("JSON as .txt", {"a.txt": SPAN % '"entities": [[0, 3, "PER"]]'}, "JSON of texts with spans", {"spans"}),
    MadeForm(
        "texts in JSON",
        {"a.jsonl": '{"id": "x", "text": "Ann ran."}\n{"id": "y", "text": "So."}\n'},
        "JSON of texts",
        {"text"},
        2,
        spans=0,
    ),
    MadeForm(
        "brat", {"a.ann": "T1\tPER 0 3\tAnn\n", "a.txt": "Ann ran.\n"}, "brat's texts with their annotations", {"spans"}
    ),
    MadeForm(
        "CoNLL-U",
        {"a.conllu": "# newdoc\n# text = Ann\n1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER\n"},
        "CoNLL-U",
        {"conllu"},
    ),
    MadeForm(
        "CoNLL-2003",
        {"eng.txt": "-DOCSTART- -X- O O\n\nAnn NNP I-NP I-PER\nran VBD I-VP O\n"},
        "a column file with lines that open documents",
        {"conll"},
    ),
    MadeForm("two columns", {"a.txt": "Ann B-PER\nran O\n\nso O\n"}, "a column file", {"columns"}, 2),
    MadeForm("three columns between blanks", {"a.txt": "Ann NNP B-PER\nran VBD O\n"}, "a column file", set()),
    MadeForm("three columns between tabs", {"a.txt": "Ann\tNNP\tB-PER\nran\tVBD\tO\n"}, "a column file", set()),
    MadeForm("words with blanks", {"a.tsv": "New York\tB-LOC\nwon\tO\n"}, "a column file", set()),
    MadeForm(
        "labels without a prefix",
        {"a.txt": "Ann PER\nran O\nto O\nOslo LOC\n"},
        "a column file with plain labels",
        set(),
        spans=2,
    ),
    MadeForm(
        "UMass",
        {"a.parsed": "B. d d B-who/U-last\n, d d I-who\n\nOslo d d B-venue/U-place\n"},
        "a column file with nested labels",
        {"umass"},
        2,
        spans=3,
    ),
    MadeForm(
        "citations in columns",
        {"a.txt": "B.\tauthor\tf\nRain\ttitle\tf|g\n\nOslo\tplace\tf\n"},
        "a table of columns between tabs",
        {"citations"},
        2,
        spans=3,
    ),
    MadeForm(
        "citations in columns, features with bars",
        {"a.txt": "B.\tauthor\tb|NN\nRain\ttitle\tr|VB\n\nOslo\tplace\to|NN\n"},
        "a table of columns between tabs",
        {"citations"},
        2,
        spans=3,
    ),
    MadeForm(
        "citations in tags",
        {"a.txt": "<author> B. </author> <title> Rain </title>\n"},
        "lines of fields in inline tags",
        {"citations"},
        spans=3,
    ),
    MadeForm(
        "addresses",
        {"a.tagged": "12 |1\nHill, |3\n\nOslo, |5\n"},
        "lines of a field's text, a bar and its label",
        {"addresses"},
        2,
        spans=5,
    ),
    MadeForm("mail", {"a.txt": "Who: <speaker>Ann Lee</speaker>\nat noon\n"}, "mails with inline tags", {"mail"}),
    MadeForm("PubTator", {"a.txt": "1|t|Salt.\n1|a|Rust.\n1\t0\t4\tSalt\tChemical\tD1\n"}, "PubTator", {"pubtator"}),
    MadeForm("CSV", {"a.csv": 'id,text\n1,"Ann ran, so."\n'}, "a CSV file", {"text"}, spans=0),
    *UNREAD,
    MadeForm("labels alone", {"labels.txt": "O\nB-PER\nI-PER\n<pad>\n"}, "a list of labels, one a line", set()),
]
"""Each form, and the readers that take it as it is."""
