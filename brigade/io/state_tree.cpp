#include "brigade/io/state_tree.h"

#include <array>
#include <bit>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/safetensors_header.h"

namespace brigade::io {
namespace {

using base::str_cat;

/// "state" and the first `count` steps below it, for messages: `state["buffer"][3]`.
std::string spell(std::span<const StateStep> path) {
  std::string text = "state";
  for (const StateStep& step : path) {
    if (const auto* key = std::get_if<std::string_view>(&step.step())) {
      text += str_cat("[\"", *key, "\"]");
    } else {
      text += str_cat("[", std::get<std::size_t>(step.step()), "]");
    }
  }
  return text;
}

[[noreturn]] void reject(std::string_view message) {
  throw Error(ErrorCode::kInvalidArgument, message,
              "; was it saved by another program or version?");
}

std::string keys_of(const StateTree::Dict& dict) {
  if (dict.empty()) return "nothing";
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict) keys.push_back(str_cat("\"", key, "\""));
  constexpr std::size_t kShown = 12;
  if (keys.size() > kShown) {
    keys.resize(kShown);
    keys.emplace_back("...");
  }
  return base::join(keys, ", ");
}

/// The number of bytes for dtype and shape, or nothing if the product overflows.
std::optional<std::uint64_t> bytes_wanted(const ArrayLeaf& array) {
  auto wanted = static_cast<std::uint64_t>(safetensors_item_bytes(array.dtype));
  for (const std::int64_t extent : array.shape) {
    if (__builtin_mul_overflow(wanted, static_cast<std::uint64_t>(extent), &wanted))
      return std::nullopt;
  }
  return wanted;
}

template <class T>
constexpr StateKind kKindOf = StateKind::kNull;
template <>
constexpr StateKind kKindOf<bool> = StateKind::kBool;
template <>
constexpr StateKind kKindOf<double> = StateKind::kDouble;
template <>
constexpr StateKind kKindOf<std::string> = StateKind::kString;
template <>
constexpr StateKind kKindOf<StateTree::Bytes> = StateKind::kBytes;
template <>
constexpr StateKind kKindOf<ArrayLeaf> = StateKind::kArray;
template <>
constexpr StateKind kKindOf<StateTree::List> = StateKind::kList;
template <>
constexpr StateKind kKindOf<StateTree::Dict> = StateKind::kDict;

[[noreturn]] void fail_kind(std::span<const StateStep> path, StateKind wanted, StateKind found) {
  reject(str_cat(spell(path), " is ", found, ", not ", wanted));
}

}  // namespace

void check_array(const ArrayLeaf& array, std::string_view what) {
  if (safetensors_item_bytes(array.dtype) == 0) {
    throw Error(ErrorCode::kInvalidArgument, what, ": dtype \"", array.dtype,
                "\" is not one of safetensors' (BOOL, U8, I8, F8_E4M3, F8_E5M2, I16, U16, F16, "
                "BF16, I32, U32, F32, I64, U64, F64)");
  }
  for (const std::int64_t extent : array.shape) {
    check_argument(extent >= 0, what, ": dimension ", extent, " is negative");
  }
  const std::optional<std::uint64_t> wanted = bytes_wanted(array);
  if (wanted != array.bytes.size()) {
    throw Error(ErrorCode::kInvalidArgument, what, ": ", array.bytes.size(),
                " bytes do not make an array of ", array.dtype, " with shape [",
                base::join(array.shape, ", "), "]");
  }
}

std::string_view to_string(StateKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {
      "null", "bool", "int64", "uint64", "double", "string", "bytes", "array", "list", "dict"};
  return kNames.at(static_cast<std::size_t>(kind));
}

StateTree::StateTree() noexcept = default;
StateTree::StateTree(const StateTree&) = default;
StateTree::StateTree(StateTree&&) noexcept = default;
StateTree& StateTree::operator=(const StateTree&) = default;
StateTree& StateTree::operator=(StateTree&&) noexcept = default;
StateTree::~StateTree() = default;

StateTree::StateTree(std::string value) : value_(std::move(value)) {}
StateTree::StateTree(std::string_view value) : value_(std::string(value)) {}
StateTree::StateTree(const char* value) : value_(std::string(value)) {}
StateTree::StateTree(Bytes value) : value_(std::move(value)) {}
StateTree::StateTree(List value) : value_(std::move(value)) {}
StateTree::StateTree(Dict value) : value_(std::move(value)) {}
StateTree::StateTree(ArrayLeaf value) : value_(std::move(value)) {
  check_array(std::get<ArrayLeaf>(value_), "state tree");
}

bool StateTree::has(std::string_view key) const {
  const auto* dict = std::get_if<Dict>(&value_);
  return dict != nullptr && dict->find(key) != dict->end();
}

std::size_t StateTree::size() const {
  if (const auto* list = std::get_if<List>(&value_)) return list->size();
  if (const auto* dict = std::get_if<Dict>(&value_)) return dict->size();
  return 0;
}

StateTree& StateTree::operator[](std::string_view key) {
  if (is_null()) value_ = Dict();
  auto* dict = std::get_if<Dict>(&value_);
  check_argument(dict != nullptr, "cannot set \"", key, "\" in a state tree that is ", kind(),
                 ", not dict");
  const auto found = dict->find(key);
  if (found != dict->end()) return found->second;
  return (*dict)[std::string(key)];
}

void StateTree::push_back(StateTree element) {
  if (is_null()) value_ = List();
  auto* list = std::get_if<List>(&value_);
  check_argument(list != nullptr, "cannot append to a state tree that is ", kind(), ", not list");
  list->push_back(std::move(element));
}

const StateTree& StateTree::descend(const Path& path) const {
  const StateTree* node = this;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::span<const StateStep> above(path.data(), i);
    if (const auto* key = std::get_if<std::string_view>(&path[i].step())) {
      const auto* dict = std::get_if<Dict>(&node->value_);
      if (dict == nullptr) fail_kind(above, StateKind::kDict, node->kind());
      const auto found = dict->find(*key);
      if (found == dict->end()) {
        reject(str_cat(spell(above), " has no \"", *key, "\"; it has ", keys_of(*dict)));
      }
      node = &found->second;
    } else {
      const std::size_t index = std::get<std::size_t>(path[i].step());
      const auto* list = std::get_if<List>(&node->value_);
      if (list == nullptr) fail_kind(above, StateKind::kList, node->kind());
      if (index >= list->size()) {
        reject(str_cat(spell(above), " has no element ", index, "; it has ", list->size()));
      }
      node = &(*list)[index];
    }
  }
  return *node;
}

template <class T>
const T& StateTree::leaf(const Path& path) const {
  const StateTree& node = descend(path);
  const T* value = std::get_if<T>(&node.value_);
  if (value == nullptr) fail_kind(path, kKindOf<T>, node.kind());
  return *value;
}

template const bool& StateTree::leaf(const Path&) const;
template const double& StateTree::leaf(const Path&) const;
template const std::string& StateTree::leaf(const Path&) const;
template const StateTree::Bytes& StateTree::leaf(const Path&) const;
template const ArrayLeaf& StateTree::leaf(const Path&) const;
template const StateTree::List& StateTree::leaf(const Path&) const;
template const StateTree::Dict& StateTree::leaf(const Path&) const;

std::int64_t StateTree::int64_leaf(const Path& path) const {
  const StateTree& node = descend(path);
  if (const auto* value = std::get_if<std::int64_t>(&node.value_)) return *value;
  const auto* value = std::get_if<std::uint64_t>(&node.value_);
  if (value == nullptr) fail_kind(path, StateKind::kInt64, node.kind());
  if (!std::in_range<std::int64_t>(*value))
    reject(str_cat(spell(path), " is ", *value, ", too large for int64"));
  return static_cast<std::int64_t>(*value);
}

std::uint64_t StateTree::uint64_leaf(const Path& path) const {
  const StateTree& node = descend(path);
  if (const auto* value = std::get_if<std::uint64_t>(&node.value_)) return *value;
  const auto* value = std::get_if<std::int64_t>(&node.value_);
  if (value == nullptr) fail_kind(path, StateKind::kUint64, node.kind());
  if (*value < 0) reject(str_cat(spell(path), " is ", *value, ", negative, not uint64"));
  return static_cast<std::uint64_t>(*value);
}

bool operator==(const StateTree& a, const StateTree& b) {
  const auto* left = std::get_if<double>(&a.value_);
  const auto* right = std::get_if<double>(&b.value_);
  if (left != nullptr && right != nullptr) {
    return std::bit_cast<std::uint64_t>(*left) == std::bit_cast<std::uint64_t>(*right);
  }
  return a.value_ == b.value_;
}

}  // namespace brigade::io
