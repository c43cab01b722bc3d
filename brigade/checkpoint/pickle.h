#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace brigade::checkpoint {

/// The index of a value of a Python pickle. Values may be shared, and may even contain themselves.
using PickleIndex = std::uint32_t;

/// A value of a Python pickle; which fields it has depends on its kind.
struct PickleValue {
  enum class Kind {
    kNone,
    kBool,     ///< number
    kInt,      ///< number
    kFloat,    ///< real
    kString,   ///< text
    kTuple,    ///< items
    kList,     ///< items
    kDict,     ///< items: key, value, key, value, ...
    kGlobal,   ///< text: its name without the module; only globals that a state dict needs
    kStorage,  ///< items: PyTorch's description of a storage that is stored next to the pickle
    kTensor,   ///< items: the arguments of torch._utils._rebuild_tensor_v2
    kObject,   ///< items: the dict of its attributes, once they are set; a module of a C++ archive
  };
  Kind kind = Kind::kNone;
  union {
    std::int64_t number = 0;
    double real;
  };
  std::string_view text{};  ///< Refers to the pickle's bytes.
  std::vector<PickleIndex> items{};
};

/// The content of a pickle, without any code. It refers to the bytes that it was parsed from, which
/// must outlive it.
struct Pickle {
  std::deque<PickleValue> values;
  PickleIndex root = 0;
  const PickleValue& at(PickleIndex index) const { return values.at(index); }
};

/// Parses the subset of pickle that PyTorch's state dicts need (plain values, tuples, lists, dicts,
/// OrderedDicts, tensors, parameters), and the archives of libtorch's torch::save (modules, which
/// are only attributes). A pickle is a program, but none of it is run: every other instruction or
/// global is refused by name (kInvalidArgument), and a corrupt pickle throws kDataLoss.
///
/// Takes at most about 80 bytes of memory per byte of the pickle and about 1.5 GB in total,
/// whatever the pickle contains: repeated values are shared, never copied, and a pickle of more
/// than 16 million values is refused (kDataLoss). Thread-safety: a pure function.
Pickle parse_pickle(std::string_view bytes, std::string_view file);

}  // namespace brigade::checkpoint
