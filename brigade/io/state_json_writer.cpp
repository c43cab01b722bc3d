#include "brigade/io/state_json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json_forms.h"

namespace brigade::io {
namespace {

using base::str_cat;
using nlohmann::json;
using namespace state_json;

std::string hex(std::uint64_t bits) {
  char digits[16];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, bits, 16).ptr);
}

std::string spell_non_finite(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return bits == kPlainNan ? "nan" : str_cat("nan:", hex(bits));
}

/// A key as part of an array's name: as in a JSON pointer, so that no two paths have the same name.
std::string escape_key(std::string_view key) {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

class Writer {
 public:
  StateJson write(const StateTree& tree, std::string_view prefix) {
    check_utf8(std::string(prefix), "prefix of the arrays' names", "state");
    const json root = convert(tree, std::string(prefix), 0);
    return {root.dump(), std::move(arrays_)};
  }

 private:
  json convert(const StateTree& tree, const std::string& path, std::size_t depth) {
    switch (tree.kind()) {
      case StateKind::kNull:
        return nullptr;
      case StateKind::kBool:
        return tree.as_bool();
      case StateKind::kInt64:
        return int64(tree.as_int64());
      case StateKind::kUint64:
        return str_cat(kUint64Tag, tree.as_uint64());
      case StateKind::kDouble:
        return real(tree.as_double());
      case StateKind::kString:
        return text(tree.as_string(), path);
      case StateKind::kBytes:
        return bytes(tree.as_bytes(), path);
      case StateKind::kArray:
        return array(tree.as_array(), path);
      case StateKind::kList:
        return list(tree.as_list(), path, depth + 1);
      case StateKind::kDict:
        return dict(tree.as_dict(), path, depth + 1);
    }
    throw Error(ErrorCode::kInternal, str_cat(path, ": a state tree of unknown kind"));
  }

  static json int64(std::int64_t value) {
    if (value > kExactInDouble || value < -kExactInDouble) return str_cat(kInt64Tag, value);
    return value;
  }

  static json real(double value) {
    if (std::isfinite(value)) return value;
    return str_cat(kDoubleTag, spell_non_finite(value));
  }

  static void check_utf8(const std::string& value, std::string_view what, const std::string& path) {
    try {
      json(value).dump();
    } catch (const json::exception&) {
      throw Error(ErrorCode::kInvalidArgument,
                  str_cat(path, ": the ", what,
                          " is not UTF-8 and cannot be saved as text; store it as bytes"));
    }
  }

  static json text(const std::string& value, const std::string& path) {
    check_utf8(value, "string", path);
    return value.starts_with('$') ? str_cat("$", value) : value;
  }

  json bytes(const StateTree::Bytes& value, const std::string& path) {
    arrays_.emplace(path, ArrayLeaf{"U8", {static_cast<std::int64_t>(value.size())}, value});
    return str_cat(kBytesTag, path);
  }

  json array(const ArrayLeaf& value, const std::string& path) {
    arrays_.emplace(path, value);
    return str_cat(kArrayTag, path);
  }

  static void check_depth(const std::string& path, std::size_t depth) {
    check_argument(depth <= kMaxStateDepth,
                   str_cat(path.substr(0, 80), "...: the state tree is nested deeper than ",
                           kMaxStateDepth, " levels"));
  }

  json list(const StateTree::List& value, const std::string& path, std::size_t depth) {
    check_depth(path, depth);
    json result = json::array();
    for (std::size_t i = 0; i < value.size(); ++i) {
      result.push_back(convert(value[i], str_cat(path, "/", i), depth));
    }
    return result;
  }

  json dict(const StateTree::Dict& value, const std::string& path, std::size_t depth) {
    check_depth(path, depth);
    json result = json::object();
    for (const auto& [key, element] : value) {
      check_utf8(key, "key of a dict", path);
      result[key] = convert(element, str_cat(path, "/", escape_key(key)), depth);
    }
    return result;
  }

  std::map<std::string, ArrayLeaf> arrays_;
};

}  // namespace

StateJson to_json(const StateTree& tree, std::string_view prefix) {
  return Writer().write(tree, prefix);
}

std::size_t stored_bytes(const StateTree& tree) {
  const StateJson written = to_json(tree);
  std::size_t bytes = written.json.size();
  for (const auto& [name, array] : written.arrays) bytes += array.bytes.size();
  return bytes;
}

}  // namespace brigade::io
