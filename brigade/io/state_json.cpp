#include "brigade/io/state_json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/strict_json.h"

namespace brigade::io {
namespace {

using base::str_cat;
using nlohmann::json;

// Strings that begin with '$' have a special meaning: see docs/formats.md.
constexpr std::string_view kUint64Tag = "$uint64:";
constexpr std::string_view kInt64Tag = "$int64:";
constexpr std::string_view kDoubleTag = "$double:";
constexpr std::string_view kBytesTag = "$bytes:";
constexpr std::string_view kArrayTag = "$array:";
constexpr std::string_view kTextTag = "$$";

/// The largest integer n such that programs with only doubles read every integer up to n exactly.
constexpr std::int64_t kExactInDouble = (std::int64_t{1} << 53) - 1;
constexpr std::uint64_t kPlainNan = 0x7ff8000000000000u;

[[noreturn]] void fail(std::string_view message) {
  throw Error(ErrorCode::kDataLoss, "state JSON: ", message);
}

/// Builds the tree from the events of nlohmann's parser. (Its own tree would lose the raw numbers,
/// and keep the last of two equal keys.)
class Reader : public nlohmann::json_sax<json> {
 public:
  explicit Reader(std::map<std::string, ArrayLeaf> arrays) : arrays_(std::move(arrays)) {}

  StateTree take_root() { return std::move(root_); }

  bool null() override { return add(StateTree()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (!std::in_range<std::int64_t>(value)) {
      fail(str_cat(where(), ": ", value, " is too large for int64; uint64 is written \"",
                   kUint64Tag, value, "\""));
    }
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& digits) override {
    // The parser converts integers that are too large to rounded doubles.
    if (digits.find_first_of(".eE") == std::string::npos) {
      fail(str_cat(where(), ": integer ", base::shortened(digits),
                   " fits neither int64 nor uint64"));
    }
    return add(value);
  }
  bool string(std::string& value) override {
    if (!value.starts_with('$')) return add(std::move(value));
    return add(tagged(value));
  }
  bool binary(json::binary_t&) override { fail("binary values do not exist in JSON"); }
  bool start_object(std::size_t) override { return open(StateTree::dict()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(StateTree::list()); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    if (open_.back().tree.has(value))
      fail(str_cat(where(), ": the key \"", base::shortened(value), "\" appears twice"));
    open_.back().key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(str_cat("cannot be read at byte ", position, ": ", base::shortened(error.what())));
  }

 private:
  struct Open {
    StateTree tree;
    std::string key;  // of the next value, in a dict
  };

  std::string where() const {
    std::string path = "state";
    for (const Open& level : open_) {
      path += level.tree.kind() == StateKind::kDict
                  ? str_cat("[\"", base::shortened(level.key), "\"]")
                  : str_cat("[", level.tree.size(), "]");
    }
    return path;
  }

  bool open(StateTree tree) {
    if (open_.size() >= kMaxStateDepth)
      fail(str_cat("nested deeper than ", kMaxStateDepth, " levels"));
    open_.push_back({std::move(tree), {}});
    return true;
  }

  bool close() {
    StateTree finished = std::move(open_.back().tree);
    open_.pop_back();
    return add(std::move(finished));
  }

  bool add(StateTree value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().tree.kind() == StateKind::kList) {
      open_.back().tree.push_back(std::move(value));
    } else {
      open_.back().tree[open_.back().key] = std::move(value);
    }
    return true;
  }

  StateTree tagged(std::string_view value) {
    if (value.starts_with(kTextTag)) return value.substr(1);
    if (value.starts_with(kUint64Tag)) return integer<std::uint64_t>(value, kUint64Tag);
    if (value.starts_with(kInt64Tag)) return integer<std::int64_t>(value, kInt64Tag);
    if (value.starts_with(kDoubleTag)) return non_finite(value.substr(kDoubleTag.size()));
    if (value.starts_with(kBytesTag)) return bytes(value.substr(kBytesTag.size()));
    if (value.starts_with(kArrayTag)) return take_array(value.substr(kArrayTag.size()));
    fail(str_cat(where(), ": \"", value.substr(0, 40), "\" begins with '$' but is no known form"));
  }

  template <class T>
  StateTree integer(std::string_view value, std::string_view tag) const {
    const std::string_view digits = value.substr(tag.size());
    T number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail(str_cat(where(), ": \"", value.substr(0, 60), "\" does not hold a number of that type"));
    }
    return number;
  }

  StateTree non_finite(std::string_view value) const {
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    if (value == "nan") return std::bit_cast<double>(kPlainNan);
    constexpr std::string_view kBits = "nan:";
    if (value.starts_with(kBits)) {
      const std::string_view digits = value.substr(kBits.size());
      std::uint64_t bits = 0;
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
      const auto number = std::bit_cast<double>(bits);
      if (error == std::errc() && end == digits.data() + digits.size() && std::isnan(number))
        return number;
    }
    fail(str_cat(where(), ": \"", kDoubleTag, value.substr(0, 40),
                 "\" is neither inf, -inf nor nan"));
  }

  StateTree bytes(std::string_view name) {
    ArrayLeaf array = take_array(name);
    if (array.dtype != "U8" || array.shape.size() != 1) {
      fail(str_cat(where(), ": bytes need an array of U8 with one dimension; \"",
                   base::shortened(name), "\" is none"));
    }
    return std::move(array.bytes);
  }

  ArrayLeaf take_array(std::string_view name) {
    const auto found = arrays_.find(std::string(name));
    if (found == arrays_.end()) {
      fail(str_cat(where(), ": refers to the array \"", base::shortened(name),
                   "\", which is missing or used twice"));
    }
    ArrayLeaf array = std::move(found->second);
    arrays_.erase(found);
    try {
      check_array(array, name);
    } catch (const Error& error) {
      fail(str_cat(where(), ": ", error.what()));
    }
    return array;
  }

  std::map<std::string, ArrayLeaf> arrays_;
  std::vector<Open> open_;
  StateTree root_;
};

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
    throw Error(ErrorCode::kInternal, path, ": a state tree of unknown kind");
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
    if (base::is_utf8(value)) return;
    throw Error(ErrorCode::kInvalidArgument, path, ": the ", what,
                " is not UTF-8 and cannot be saved as text; store it as bytes");
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
    check_argument(depth <= kMaxStateDepth, path.substr(0, 80),
                   "...: the state tree is nested deeper than ", kMaxStateDepth, " levels");
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

StateTree from_json(std::string_view text, std::map<std::string, ArrayLeaf> arrays) {
  if (const auto why = not_json(text)) fail(*why);
  Reader reader(std::move(arrays));
  json::sax_parse(text, &reader);
  return reader.take_root();
}

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
