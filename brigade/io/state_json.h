#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "brigade/io/state_tree.h"

namespace brigade::io {

/// A serialized state tree: text, and the raw bytes that the text refers to by name. A checkpoint
/// puts the text into its manifest and the arrays into a safetensors file.
struct StateJson {
  std::string json;
  std::map<std::string, ArrayLeaf> arrays;
};

/// The maximum nesting depth of lists and dicts, in writing and reading. It protects the stack
/// against malicious files.
inline constexpr std::size_t kMaxStateDepth = 200;

/// Writes `tree` as specified in docs/formats.md, "State trees": on one line, with keys sorted by
/// bytes, so that equal trees give equal text. Bytes and arrays become references named
/// `<prefix>/<path>`; use a different prefix for each tree of a file.
///
/// Throws kInvalidArgument, naming the path, if a string or key is not UTF-8 (store it as bytes) or
/// the tree is too deep.
StateJson to_json(const StateTree& tree, std::string_view prefix = "state");

/// The number of bytes of `tree` in a file: its text and its arrays. Throws as `to_json`.
std::size_t stored_bytes(const StateTree& tree);

/// Reads what `to_json` wrote: the same tree, every type and every bit of a double included. Arrays
/// that the text does not refer to are ignored.
///
/// Throws kDataLoss, naming the location, if the text is not valid: wrong syntax, nested too deep,
/// a duplicate key in a dict, a number that does not fit any type of the tree, a reference to an
/// array that is missing, invalid or used twice.
StateTree from_json(std::string_view json, std::map<std::string, ArrayLeaf> arrays = {});

}  // namespace brigade::io
