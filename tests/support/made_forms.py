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
    """

    title: str
    files: dict[str, str]
    form: SourceForm | None
    readers: set[str]
    documents: int = 1

    def write(self, folder: Path) -> Path:
        """Writes the files; returns the only one, or the folder."""
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_text(content)
        return folder if len(self.files) > 1 else folder / next(iter(self.files))


SPAN = '{"text": "Ann went to Oslo.", %s}\n'
FOREIGN = [
    MadeForm(
        "AnyStyle",
        {"a.xml": "<dataset>\n<sequence>\n<author>Lee, A.</author>\n<title>Rain.</title>\n</sequence>\n</dataset>\n"},
        SourceForm.XML,
        {"xml"},
    ),
    MadeForm(
        "AnyStyle, a field a line, as text",
        {
            "a.txt": "<?xml version='1.0'?>\n<dataset><sequence>\n<author>Lee</author>\n<title>Rain</title>\n"
            "</sequence></dataset>"
        },
        SourceForm.XML,
        {"xml"},
    ),
    MadeForm(
        "GROBID",
        {
            "b.tei.xml": '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><listBibl>\n<bibl><author>Lee</author>, '
            "<title>Rain</title>.<lb/></bibl></listBibl></text></TEI>"
        },
        SourceForm.XML,
        {"xml"},
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
    MadeForm("labels without a prefix", {"a.txt": "Ann PER\nran O\nto O\nOslo LOC\n"}, SourceForm.PLAIN_COLUMNS, set()),
    MadeForm(
        "UMass",
        {"a.parsed": "B. d d B-who/U-last\n, d d I-who\n\nOslo d d B-venue/U-place\n"},
        SourceForm.NESTED,
        {"umass"},
        2,
    ),
    MadeForm(
        "citations in columns",
        {"a.txt": "B.\tauthor\tf\nRain\ttitle\tf|g\n\nOslo\tplace\tf\n"},
        SourceForm.TABLE,
        {"citations"},
        2,
    ),
    MadeForm(
        "citations in columns, features with bars",
        {"a.txt": "B.\tauthor\tb|NN\nRain\ttitle\tr|VB\n\nOslo\tplace\to|NN\n"},
        SourceForm.TABLE,
        {"citations"},
        2,
    ),
    MadeForm(
        "citations in tags",
        {"a.txt": "<author> B. </author> <title> Rain </title>\n"},
        SourceForm.TAGGED_LINES,
        {"citations"},
    ),
    MadeForm("addresses", {"a.tagged": "12 |1\nHill, |3\n\nOslo, |5\n"}, SourceForm.ADDRESSES, {"addresses"}, 2),
    MadeForm("mail", {"a.txt": "Who: <speaker>Ann Lee</speaker>\nat noon\n"}, SourceForm.MAIL, {"mail"}),
    MadeForm(
        "PubTator", {"a.txt": "1|t|Salt.\n1|a|Rust.\n1\t0\t4\tSalt\tChemical\tD1\n"}, SourceForm.PUBTATOR, {"pubtator"}
    ),
    MadeForm("CSV", {"a.csv": 'id,text\n1,"Ann ran, so."\n'}, SourceForm.CSV, {"text"}),
    MadeForm("labels alone", {"labels.txt": "O\nB-PER\nI-PER\n<pad>\n"}, SourceForm.LABEL_LIST, set()),
]
"""Each form, and the readers that take it as it is."""
