"""An encoder by the name of a resource, for training: a model keeps its encoder in its folder."""

from __future__ import annotations

import json
import zipfile

import numpy as np

from concord.workers.features.resources import ResourceKind, files_of, reading, resource_named
from concord.workers.models.encoder import CONFIG_FILE, Encoder, encoder_at, mean_reading
from concord.workers.models.subword_network import TOKENIZER_FILE, room_of


def encoder_named(name: str) -> Encoder:
    """The encoder of a resource's name, or of a folder. Raises `ModelError` and `ResourceError`."""
    resource = resource_named(ResourceKind.ENCODER, name)
    if resource is None or not resource.packages:
        with reading(ResourceKind.ENCODER, name) as folder:
            return encoder_at(folder)
    network, tokenizer = files_of(name, resource)
    with zipfile.ZipFile(tokenizer) as packed:
        rules, room = packed.read(TOKENIZER_FILE), room_of(json.loads(packed.read(CONFIG_FILE)))
    return Encoder(np.fromfile(network, np.uint8), np.frombuffer(rules, np.uint8), mean_reading(room))
