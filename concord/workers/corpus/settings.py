"""Options of the readers of other formats, and of the Parquet corpus that is written from them."""

from __future__ import annotations

import codecs
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from concord.schemas.settings import (
    TOKENIZER,
    RawTextSettings,
    ReaderSettings,
    Settings,
    TextSettings,
    WriterSettings,
)

PROBE = bytes(range(128)) + rb"\ud800 +2AA- .xn--tda"
"""ASCII, and what UTF-7, Python's escapes and IDNA take for something else."""


def _encoding(name: str) -> str:
    """Python's name of an encoding; it must have line ends, blanks and tabs as in ASCII."""
    try:
        codec = codecs.lookup(name).name
        plain = PROBE.decode(codec) == PROBE.decode("ascii")
    except LookupError as error:
        raise ValueError(f"no text encoding is called {name!r}; give one such as utf-8, latin-1 or cp1252") from error
    except UnicodeError:
        plain = False
    if not plain:
        raise ValueError(f"{name}: ASCII looks different in it, so no line can be found; convert the file to UTF-8")
    return codec


Encoding = Annotated[str, AfterValidator(_encoding)]


Prefix = Annotated[str | None, Field(description="Prefix of document ids (default: the file's name).")]


FileEncoding = Annotated[
    Encoding, Field(description="Encoding of the files; latin-1 for CoNLL-2002 and CoNLL-2003's German.")
]


class ColumnsSettings(ReaderSettings):
    """Column files: a token on each line, and a blank line after each sentence (CoNLL-2000, CoNLL-2002, WNUT)."""

    columns: tuple[str, ...] = Field(
        ("tokens", "labels"), description="Column names in order: tokens, and labels if there is gold; '_' skips one."
    )
    separator: Literal["whitespace", "tab"] = Field("whitespace", description="Separator of columns.")
    scheme: Literal["bio", "plain"] = Field(
        "bio",
        description="Label scheme: 'bio' reads BIO, IOB1, BIOES and BILOU, and writes BIO; 'plain' takes any label.",
    )
    boundary: str | None = Field(
        "-DOCSTART-", pattern=r"^\S([^\r\n]*\S)?$", description="First word of a line that opens a document."
    )
    sentences_per_document: int | None = Field(
        1, ge=1, description="Number of sentences in a document, for a file without such lines; null refuses the file."
    )
    comments: str | None = Field(
        None, pattern=r"^\S+$", description="Start of lines that are comments, such as '#' (default: none are)."
    )
    ids: bool = Field(default=False, description="Does the id of a document follow the word that opens it?")
    header: bool = Field(default=False, description="Does the first line name the columns? It is left out then.")
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None

    @field_validator("columns")
    @classmethod
    def _names(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        named = [c for c in columns if c != "_"]
        wrong = [c for c in named if not c.isidentifier() or c in ("token", "label")]
        if wrong or "tokens" not in named or len(set(named)) != len(named):
            raise ValueError(
                f"{','.join(columns)}: name 'tokens' once, gold 'labels', and no other name twice; names have "
                "letters, digits and '_', and '_' alone skips a column"
            )
        return columns

    @model_validator(mode="after")
    def _documents(self) -> Self:
        if self.boundary is None and self.sentences_per_document is None:
            raise ValueError("give a boundary or sentences_per_document, so that documents end somewhere")
        for name, start in (("boundary", self.boundary), ("comments", self.comments)):
            try:
                (start or "").encode(self.encoding)
            except UnicodeEncodeError as error:
                raise ValueError(f"{name} {start!r} cannot be written in {self.encoding}") from error
        return self


class ConllSettings(ColumnsSettings):
    """CoNLL-2003: word, part of speech, chunk and IOB1 tag; ``-DOCSTART-`` opens a document."""

    columns: tuple[str, ...] = Field(
        ("tokens", "pos", "chunk", "labels"), description="Column names in order; '_' skips one."
    )
    sentences_per_document: int | None = Field(
        None,
        ge=1,
        description="Number of sentences in a document, for a file without such lines; null refuses the file.",
    )


class CitationSettings(ReaderSettings):
    """Citations with fields: lines of a token and its field, or lines of a citation with inline tags."""

    form: Literal["auto", "columns", "tags"] = Field(
        "auto", description="Form of the file; 'auto' looks at the first line with text."
    )
    gold: bool = Field(default=True, description="Are the fields gold labels? Not in a file with a dummy column.")
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class UmassSettings(ReaderSettings):
    """Citations with nested fields: token, two columns that are not used, and a label a level, joined by ``/``."""

    levels: Literal["all", "outermost"] = Field(
        "all",
        description="Levels of fields: 'all' makes every path a type, such as venue/year; 'outermost' its first field.",
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class AddressSettings(ReaderSettings):
    """Addresses with fields: lines of ``text |label``, and a blank line after each address."""

    split_marks: bool = Field(
        default=True, description="Make commas before and after words tokens, with the label of their field."
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class TextReaderSettings(RawTextSettings):
    """Options of the reader of raw text: those of a run (which reads Parquet only), and the form of other files."""

    encoding: Encoding = Field("utf-8", description="Encoding of files; Parquet is always UTF-8.")
    delimiter: str = Field(",", description="Separator of columns in .csv files; tab for a tab.")

    @classmethod
    def of(cls, text: TextSettings, encoding: str = "utf-8") -> Self:
        """Options that read and cut texts as a run does. Raises `pydantic.ValidationError`."""
        return cls.model_validate(text.model_dump(exclude={"keep_columns"}) | {"encoding": encoding})

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str) -> str:
        named = {"tab": "\t"}.get(delimiter, delimiter)
        if len(named) != 1 or named in '\r\n"':
            raise ValueError(f"{delimiter!r}: give one character, such as ; or tab")
        return named


class MarkedTextSettings(ReaderSettings):
    """Options for texts with spans of characters: how they are tokenised, and what happens to spans that do not fit."""

    language: str = Field("en", description="Language of the text (ISO 639-1), for the tokenizer.")
    tokenizer: str | None = Field(
        None,
        pattern=TOKENIZER,
        description="Tokenizer that cuts raw text, as NAME or NAME==VERSION; `concord list tokenizers` has them "
        "(default: words).",
    )
    split_hyphens: bool = Field(
        default=True,
        description="Cut words at hyphens too, where spans end (lithium-induced, 3:30-5:00); for raw text give "
        "--split-hyphens to label.",
    )
    unfit: Literal["widen", "drop"] = Field(
        "widen",
        description="Treatment of a span that starts or ends inside a token: widen it to the whole token, or drop it.",
    )
    encoding: FileEncoding = "utf-8"

    @property
    def cutting(self) -> RawTextSettings:
        """How the texts are cut."""
        return RawTextSettings(language=self.language, tokenizer=self.tokenizer, split_hyphens=self.split_hyphens)


class MailSettings(MarkedTextSettings):
    """Mails with inline tags, one document a file (Freitag's seminar announcements)."""

    sentences: Literal["mail", "lines", "tagged"] = Field(
        "mail", description="Sentences: the whole mail, its lines, or the parts that sentence tags mark."
    )
    prefix: Prefix = None


class SentencesSettings(MarkedTextSettings):
    """Texts whose sentences are found by the tokenizer's rules."""

    sentence_limit: int = Field(500, ge=1, description="Longest sentence, in tokens; longer ones are cut.")

    @property
    def cutting(self) -> RawTextSettings:
        """How the texts are cut."""
        return super().cutting.model_copy(update={"sentence_limit": self.sentence_limit})


class PubtatorSettings(SentencesSettings):
    """PubTator: title and abstract, then a line for each span of characters."""


class SpansSettings(SentencesSettings):
    """Texts with spans of characters: JSON records of annotation tools and taggers, brat's folders, .spacy files."""

    id_key: str | None = Field(None, description="Key of a record's id (default: id, doc_id or document_id).")
    text_key: str | None = Field(None, description="Key of a record's text (default: text, full_text or data).")
    spans_key: str | None = Field(
        None,
        description="Key of a record's spans (default: the one of label, entities, spans and the like); of a .spacy "
        "file ents, or a group's name.",
    )
    offsets: Literal["characters", "utf-16", "bytes"] = Field(
        "characters", description="Unit of starts and ends: characters, UTF-16 units (JavaScript), or bytes of UTF-8."
    )
    answers: Literal["annotations", "predictions"] = Field(
        "annotations", description="List of a Label Studio task that is read."
    )
    prefix: Prefix = None


class XmlSettings(MarkedTextSettings):
    """Records of tagged fields in XML (AnyStyle, GROBID's TEI, parserator)."""

    record: str | None = Field(
        None, description="Name of the element that is a record (default: found, and told), such as sequence or bibl."
    )
    attributes: tuple[str, ...] = Field(
        (), description="Attributes whose values become part of labels, such as level: <title level='j'> is title/j."
    )
    scheme: Literal["bio", "plain"] = Field(
        "bio", description="Labels: 'bio' opens each field with B-; 'plain' gives each token the name of its field."
    )
    prefix: Prefix = None


class ConlluSettings(ReaderSettings):
    """CoNLL-U: words in ten columns; ``# newdoc`` opens a document."""

    labels: str | None = Field(
        "NER", pattern=r"^[^\s=|]+$", description="Name in the last column (MISC) whose value is a word's label."
    )
    sentences_per_document: int = Field(
        1, ge=1, description="Number of sentences in a document, for a file without '# newdoc'."
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class ParquetReaderSettings(ReaderSettings):
    """Parquet of other programs, such as Hugging Face datasets: a row is a document, cut into tokens."""

    id_column: str | None = Field(None, description="Column of document ids (default: doc_id or id).")
    tokens_column: str | None = Field(
        None, description="Column of tokens, a list of strings (default: tokens or words)."
    )
    labels_column: str | None = Field(
        None, description="Column of gold labels, names or numbers (default: labels, ner_tags, tags or ner)."
    )
    label_names: tuple[str, ...] | None = Field(
        None, description="Names of labels that are numbers, from 0 on (default: those of Hugging Face's metadata)."
    )
    gold: bool = Field(default=True, description="Read the gold labels, where there are any?")
    scheme: Literal["bio", "plain"] = Field(
        "bio",
        description="Label scheme: 'bio' reads BIO, IOB1, BIOES and BILOU, and writes BIO; 'plain' takes any label.",
    )


class ConllWriterSettings(WriterSettings):
    """A token a line."""

    boundaries: bool = Field(default=True, description="Open each document with a line -DOCSTART- and its id?")
    ids: bool = Field(
        default=True,
        description="Write ids in these lines? Without, they are those of CoNLL-2003, as spaCy reads them.",
    )


class LabelStudioSettings(WriterSettings):
    """Label Studio's tasks; the names are those of the labelling interface."""

    from_name: str = Field("label", description="Name of the Labels tag.")
    to_name: str = Field("text", description="Name of the Text tag.")
    data_key: str = Field("text", description="Key of the text in a task's data.")
    model_version: str = Field("concord", description="Name of the model in the list of predictions.")
    offsets: Literal["characters", "utf-16"] = Field(
        "characters", description="Unit of starts and ends: characters, or UTF-16 units (JavaScript)."
    )


class IngestSettings(Settings):
    """Layout of a corpus in Parquet. A run's shards do not depend on it."""

    group_documents: int = Field(64, ge=1, description="Largest row group, in documents.")
    group_tokens: int = Field(50_000, ge=1, description="Size at which a row group ends, in tokens.")
    part_bytes: int = Field(64 << 20, ge=1, description="Size at which a part file ends, in bytes.")
