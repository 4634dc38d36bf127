"""The metadata documents of a target, made from those of its source.

With the format, chunks and codecs of the source (the default) the documents are the source's own, so that everything a
reader sees in them is unchanged. Options change just their part of a document; another Zarr format makes new documents
through zarr-python.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import zarr
from xarray.backends.zarr import FillValueCoder
from zarr.storage import MemoryStore

from shuffle_tasks.errors import RequestError
from shuffle_tasks.planning.codec_choice import CodecChoice
from shuffle_tasks.storage import tree
from shuffle_tasks.storage.chunks import array_from_documents
from shuffle_tasks.storage.memory_documents import documents_in
from shuffle_tasks.storage.objects import LocalObjects

_XARRAY_FILL_KINDS = "biufc"
"""xarray reads a `_FillValue` of format 3 for these; the other dtypes have no missing values there."""

Nodes = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """How the target differs from the source: None keeps the source's."""

    zarr_format: Literal[2, 3] | None = None
    chunk_rows: int | None = None
    shard_rows: int | None = None
    codec: CodecChoice | None = None


def target_nodes(
    source: LocalObjects, nodes: Mapping[str, Mapping[str, Any]], rows: tuple[str, ...], options: TargetOptions
) -> Nodes:
    """Return the documents of every node of the target.

    Parameters
    ----------
    source
        The source's store.
    nodes
        The documents of its nodes, by path.
    rows
        Paths of the shuffled arrays: the options for chunks and codec are theirs alone.
    options
        What is to differ.

    Raises
    ------
    RequestError
        If the options contradict one another, or the source.
    """
    have = tree.format_of(nodes[""])
    want: Literal[2, 3] = options.zarr_format or have
    if want == 2 and options.shard_rows:
        raise RequestError("Zarr format 2 has no shards: leave --shard-rows out, or choose --zarr-format 3")
    made: Nodes = {}
    for path, documents in nodes.items():
        try:
            node = _without_consolidation(documents) if want == have else _converted(source, path, documents, want)
        except Exception as error:
            raise RequestError(
                f"{path or '(root)'!r} of {source.root} cannot be converted to Zarr format {want}: {error}"
            ) from error
        made[path] = _with_options(path, node, options) if path in rows else node
    return made


def _without_consolidation(documents: Mapping[str, Any]) -> dict[str, Any]:
    node = copy.deepcopy(dict(documents))
    if "zarr.json" in node:
        node["zarr.json"].pop("consolidated_metadata", None)
    return node


def with_chunk_rows(documents: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Return the documents of an array with stored objects (chunks, or shards) of `rows` rows."""
    node = copy.deepcopy(dict(documents))
    if "zarr.json" not in node:
        node[".zarray"]["chunks"][0] = rows
        return node
    _outer_shape(node)[0] = rows
    sharding = _sharding(node)
    if sharding is not None and rows % sharding["chunk_shape"][0]:
        sharding["chunk_shape"][0] = rows
    return node


def _outer_shape(node: Mapping[str, Any]) -> list[int]:
    shape: list[int] = node["zarr.json"]["chunk_grid"]["configuration"]["chunk_shape"]
    return shape


def _sharding(node: Mapping[str, Any]) -> dict[str, Any] | None:
    for codec in node["zarr.json"]["codecs"]:
        if codec["name"] == "sharding_indexed":
            settings: dict[str, Any] = codec["configuration"]
            return settings
    return None


def _with_options(path: str, node: dict[str, Any], options: TargetOptions) -> dict[str, Any]:
    if ".zarray" in node:
        return _v2_with_options(node, options)
    if options.chunk_rows:
        _set_chunk_rows(node, options.chunk_rows)
    if options.shard_rows:
        _set_shard_rows(path, node, options.shard_rows)
    if options.codec:
        _set_v3_codec(node, options.codec)
    return node


def _v2_with_options(node: dict[str, Any], options: TargetOptions) -> dict[str, Any]:
    if options.chunk_rows:
        node[".zarray"]["chunks"][0] = options.chunk_rows
    if options.codec:
        node[".zarray"]["compressor"] = _v2_compressor(options.codec)
        node[".zarray"]["filters"] = None
    return node


def _v2_compressor(codec: CodecChoice) -> dict[str, Any] | None:
    if codec.name == "blosc":
        shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}[codec.shuffle]
        return {"id": "blosc", "cname": codec.cname, "clevel": codec.level, "shuffle": shuffle, "blocksize": 0}
    return None if codec.name == "none" else {"id": codec.name, "level": codec.level}


def _set_chunk_rows(node: dict[str, Any], rows: int) -> None:
    sharding = _sharding(node)
    if sharding is None:
        _outer_shape(node)[0] = rows
        return
    sharding["chunk_shape"][0] = rows
    _outer_shape(node)[0] = -(-_outer_shape(node)[0] // rows) * rows


def _set_shard_rows(path: str, node: dict[str, Any], rows: int) -> None:
    outer, sharding, document = _outer_shape(node), _sharding(node), node["zarr.json"]
    inner_rows = sharding["chunk_shape"][0] if sharding else outer[0]
    if rows % inner_rows:
        raise RequestError(
            f"--shard-rows {rows} is no multiple of the chunk rows of {path or 'the array'}, {inner_rows}: "
            f"choose a multiple, or give --chunk-rows as well"
        )
    if sharding is None:
        document["codecs"] = [_sharding_codec(list(outer), document["codecs"])]
    outer[0] = rows


def _sharding_codec(inner: list[int], codecs: list[Any]) -> dict[str, Any]:
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    settings = {"chunk_shape": inner, "codecs": codecs, "index_codecs": index, "index_location": "end"}
    return {"name": "sharding_indexed", "configuration": settings}


def _set_v3_codec(node: dict[str, Any], codec: CodecChoice) -> None:
    holder = _sharding(node) or node["zarr.json"]
    names = [c["name"] for c in holder["codecs"]]
    holder["codecs"] = holder["codecs"][: names.index("bytes") + 1] + _v3_compressor(codec, _itemsize(node))


def _itemsize(node: dict[str, Any]) -> int:
    return int(np.dtype(array_from_documents(LocalObjects(""), "", node).dtype).itemsize)


def _v3_compressor(codec: CodecChoice, itemsize: int) -> list[dict[str, Any]]:
    if codec.name == "none":
        return []
    settings: dict[str, Any] = {"level": codec.level}
    if codec.name == "zstd":
        settings["checksum"] = False
    if codec.name == "blosc":
        settings = {
            "cname": codec.cname,
            "clevel": codec.level,
            "shuffle": codec.shuffle,
            "typesize": itemsize,
            "blocksize": 0,
        }
    return [{"name": codec.name, "configuration": settings}]


def _converted(
    source: LocalObjects, path: str, documents: Mapping[str, Any], zarr_format: Literal[2, 3]
) -> dict[str, Any]:
    """Return the documents of one node in another Zarr format."""
    attributes = tree.attributes_of(documents)
    dims = tree.dimensions_of(documents)
    if not tree.is_array(documents):
        return documents_in(
            zarr_format, lambda store: zarr.create_group(store, attributes=attributes, zarr_format=zarr_format)
        )
    array = array_from_documents(source, path, documents)
    fill = array.metadata.fill_value
    if zarr_format == 3:
        attributes.pop("_ARRAY_DIMENSIONS", None)
        # xarray reads the fill value of format 2 as "missing", that of format 3 as a plain default
        if fill is not None and np.dtype(array.dtype).kind in _XARRAY_FILL_KINDS:
            attributes["_FillValue"] = _encode_fill(fill, array)
    else:
        fill = FillValueCoder.decode(attributes.pop("_FillValue"), array.dtype) if "_FillValue" in attributes else None
        attributes |= {"_ARRAY_DIMENSIONS": list(dims or ())} if dims is not None or not array.shape else {}

    def create(store: MemoryStore) -> None:
        zarr.create_array(
            store,
            shape=array.shape,
            dtype=array.metadata.dtype if zarr_format == 3 else array.dtype,
            chunks=array.chunks,
            shards=array.shards if zarr_format == 3 else None,
            fill_value=fill,
            attributes=attributes,
            zarr_format=zarr_format,
            dimension_names=dims if zarr_format == 3 else None,
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fixed-length strings and dates are not yet in the Zarr 3 specification
        node = documents_in(zarr_format, create)
    _carry_compressor(documents, node)
    return node


def _encode_fill(fill: Any, array: zarr.Array[Any]) -> Any:
    value: Any = np.asarray(fill).astype(array.dtype)[()]
    return FillValueCoder.encode(value, np.dtype(array.dtype))


def _carry_compressor(documents: Mapping[str, Any], node: dict[str, Any]) -> None:
    """Keep the source's compressor where both formats have it; else the new format's default stays."""
    choice = _choice_of(documents)
    if choice is None:
        return
    if ".zarray" in node:
        node[".zarray"]["compressor"] = _v2_compressor(choice)
    elif "bytes" in [c["name"] for c in node["zarr.json"]["codecs"]]:
        _set_v3_codec(node, choice)


def _choice_of(documents: Mapping[str, Any]) -> CodecChoice | None:
    """Return the compressor of an array as a choice, or None if it is not one that both formats have."""
    if ".zarray" in documents:
        settings, shuffles = documents[".zarray"]["compressor"], {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
        if settings is None:
            return CodecChoice("none")
        name, shuffle = settings["id"], shuffles.get(settings.get("shuffle", 1))
    else:
        chain = (_sharding(documents) or documents["zarr.json"])["codecs"]
        rest = [c for c in chain if c["name"] != "bytes"]
        if not rest:
            return CodecChoice("none")
        settings, name = rest[0].get("configuration", {}), rest[0]["name"] if len(rest) == 1 else "chain"
        shuffle = settings.get("shuffle")
    if name == "blosc" and shuffle:
        return CodecChoice("blosc", settings["clevel"], settings["cname"], shuffle)
    return CodecChoice(name, settings["level"]) if name in ("gzip", "zstd") else None
