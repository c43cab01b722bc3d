#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "brigade/io/state_tree.h"

namespace brigade::io {

/// A state tree made ready for files: text, and beside it the raw bytes that the text refers to by
/// name. A checkpoint puts the text into its manifest and the arrays into a safetensors file.
struct StateJson {
  std::string json;
  std::map<std::string, ArrayLeaf> arrays;
};

/// Lists and dicts nested deeper than this are neither written nor read, so that no file can
/// exhaust the stack.
inline constexpr std::size_t kMaxStateDepth = 200;

/// Writes `tree` as docs/formats.md, "State trees", says: on one line, keys in byte order, so that
/// equal trees give equal text. Bytes and arrays become references named `<prefix>/<path>`; give
/// each tree of one file another prefix.
///
/// Throws kInvalidArgument, naming the path, if a string or key is not UTF-8 (store it as bytes) or
/// the tree is too deep.
StateJson to_json(const StateTree& tree, std::string_view prefix = "state");

/// The bytes that `tree` takes in a file: those of its text and of its arrays. Throws as `to_json`.
std::size_t stored_bytes(const StateTree& tree);

/// Reads what `to_json` wrote: the same tree, every type and every bit of a double included. Arrays
/// that the text does not refer to are ignored.
///
/// Throws kDataLoss, saying where, if the text is not such JSON: broken syntax, nested too deep, a
/// key twice in one dict, a number that no type of the tree holds, a reference to an array that is
/// missing, broken or used twice.
StateTree from_json(std::string_view json, std::map<std::string, ArrayLeaf> arrays = {});

}  // namespace brigade::io
