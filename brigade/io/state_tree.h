#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace brigade::io {

/// A tensor as plain bytes: contiguous, row-major, little-endian.
struct ArrayLeaf {
  std::string dtype;                ///< As safetensors spells it: "F32", "I64", "U8", "BOOL", ...
  std::vector<std::int64_t> shape;  ///< Empty for a scalar.
  std::vector<std::byte> bytes;
  friend bool operator==(const ArrayLeaf&, const ArrayLeaf&) = default;
};

/// Throws kInvalidArgument, naming `what`, unless the dtype is one of safetensors', no dimension is
/// negative, and the number of bytes matches dtype and shape.
void check_array(const ArrayLeaf& array, std::string_view what);

/// One step down a state tree: a key of a dict or an index of a list.
class StateStep {
 public:
  template <class T>
  requires std::convertible_to<const T&, std::string_view> StateStep(const T& key)  // NOLINT
      : step_(std::string_view(key)) {}
  template <std::integral T>
  StateStep(T index) : step_(static_cast<std::size_t>(index)) {}  // NOLINT: implicit, for paths
  const std::variant<std::string_view, std::size_t>& step() const { return step_; }

 private:
  std::variant<std::string_view, std::size_t> step_;
};

/// What a node of a StateTree is.
enum class StateKind {
  kNull,
  kBool,
  kInt64,
  kUint64,
  kDouble,
  kString,
  kBytes,
  kArray,
  kList,
  kDict
};

/// "null", "bool", "int64", ...
std::string_view to_string(StateKind kind);

/// A tree of plain values: the result of `save` and the argument of `restore` everywhere in
/// Brigade. Dicts keep their keys sorted by bytes, so equal states give equal bytes when written
/// (`to_json` in brigade/io/state_json.h).
///
///   StateTree state;                 // null; becomes a dict by its first key
///   state["position"] = 17;          // int64
///   state["rng"]["key"] = seed;      // uint64, if seed is unsigned
///   state.as_uint64("rng", "key");   // steps down, checks the type, names the path if anything is
///   wrong
///
/// Numbers remember their type. `as_int64` and `as_uint64` read each other's values where they fit;
/// nothing else is converted.
///
/// Thread-safety: a value: any number of readers, or one writer.
class StateTree {
 public:
  using Bytes = std::vector<std::byte>;
  using List = std::vector<StateTree>;
  using Dict = std::map<std::string, StateTree, std::less<>>;

  // Not in each source that has one: copies and destructors of ten types.
  StateTree() noexcept;
  StateTree(const StateTree&);
  StateTree(StateTree&&) noexcept;
  StateTree& operator=(const StateTree&);
  StateTree& operator=(StateTree&&) noexcept;
  ~StateTree();

  template <class T>
  requires std::same_as<T, bool> StateTree(T value)  // NOLINT: as they are written
      : value_(value) {}
  template <std::signed_integral T>
  StateTree(T value) : value_(std::int64_t{value}) {}  // NOLINT
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) StateTree(T value) : value_(std::uint64_t{value}) {}  // NOLINT
  template <std::floating_point T>
  StateTree(T value) : value_(static_cast<double>(value)) {}  // NOLINT
  StateTree(std::string value);                               // NOLINT
  StateTree(std::string_view value);                          // NOLINT
  StateTree(const char* value);                               // NOLINT
  StateTree(Bytes value);                                     // NOLINT
  StateTree(List value);                                      // NOLINT
  StateTree(Dict value);                                      // NOLINT
  /// Throws kInvalidArgument if `value` is inconsistent (see check_array).
  StateTree(ArrayLeaf value);  // NOLINT
  /// An empty list and an empty dict: both differ from null.
  static StateTree list() { return StateTree(List()); }
  static StateTree dict() { return StateTree(Dict()); }

  StateKind kind() const { return static_cast<StateKind>(value_.index()); }
  bool is_null() const { return kind() == StateKind::kNull; }
  /// Whether this is a dict with that key.
  bool has(std::string_view key) const;
  /// How many elements a list or dict has; 0 for a leaf.
  std::size_t size() const;

  /// The value of a key, created (as null) if missing. A null tree becomes a dict first; anything
  /// else that is not a dict throws kInvalidArgument.
  StateTree& operator[](std::string_view key);
  /// Adds to the end of a list. A null tree becomes a list first; anything else that is not a list
  /// throws kInvalidArgument.
  void push_back(StateTree element);

  /// The value at a path of keys and indices: `tree.at("buffer", 3, "label")`. This function and
  /// all below throw kInvalidArgument, naming the part of the path that exists, what was found and
  /// what was expected.
  template <class... Step>
  const StateTree& at(const Step&... steps) const {
    return descend(Path{steps...});
  }
  /// The leaf at the path, or this value itself without a path.
  template <class... Step>
  bool as_bool(const Step&... steps) const {
    return leaf<bool>(Path{steps...});
  }
  template <class... Step>
  std::int64_t as_int64(const Step&... steps) const {
    return int64_leaf(Path{steps...});
  }
  template <class... Step>
  std::uint64_t as_uint64(const Step&... steps) const {
    return uint64_leaf(Path{steps...});
  }
  template <class... Step>
  double as_double(const Step&... steps) const {
    return leaf<double>(Path{steps...});
  }
  template <class... Step>
  const std::string& as_string(const Step&... steps) const {
    return leaf<std::string>(Path{steps...});
  }
  template <class... Step>
  const Bytes& as_bytes(const Step&... steps) const {
    return leaf<Bytes>(Path{steps...});
  }
  template <class... Step>
  const ArrayLeaf& as_array(const Step&... steps) const {
    return leaf<ArrayLeaf>(Path{steps...});
  }
  template <class... Step>
  const List& as_list(const Step&... steps) const {
    return leaf<List>(Path{steps...});
  }
  template <class... Step>
  const Dict& as_dict(const Step&... steps) const {
    return leaf<Dict>(Path{steps...});
  }

  /// Equal kinds and equal values; doubles are compared bit by bit, so NaN equals itself and 0.0
  /// differs from -0.0.
  friend bool operator==(const StateTree& a, const StateTree& b);

 private:
  using Path = std::vector<StateStep>;
  const StateTree& descend(const Path& path) const;
  template <class T>
  const T& leaf(const Path& path) const;
  std::int64_t int64_leaf(const Path& path) const;
  std::uint64_t uint64_leaf(const Path& path) const;

  // In the order of StateKind.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Bytes,
               ArrayLeaf, List, Dict>
      value_;
};

}  // namespace brigade::io
