#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::checkpoint {

/// A value of a Python pickle, by its index: values may be shared, and may even contain themselves.
using PickleIndex = std::uint32_t;

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
    kGlobal,   ///< text: "module name"; only those that a state dict needs
    kStorage,  ///< items: what PyTorch says of a storage that lies beside the pickle
    kTensor,   ///< items: the arguments of torch._utils._rebuild_tensor_v2
    kObject,   ///< items: the dict of its attributes, once they are set; of a C++ archive's module
  };
  Kind kind = Kind::kNone;
  std::int64_t number = 0;
  double real = 0;
  std::string text{};
  std::vector<PickleIndex> items{};
};

/// What a pickle says, with no Python and no code in it.
struct Pickle {
  std::vector<PickleValue> values;
  PickleIndex root = 0;
  const PickleValue& at(PickleIndex index) const { return values.at(index); }
};

/// Reads a pickle as far as PyTorch's state dicts need it (plain values, tuples, lists, dicts,
/// OrderedDicts, tensors, parameters), and the archives of libtorch's torch::save (modules, which
/// are nothing but attributes). A pickle is a program; this runs none of it: every
/// instruction and every global beyond those is refused by its name (kInvalidArgument), and what is
/// broken throws kDataLoss. Takes memory in proportion to the text. Thread-safety: a pure function.
Pickle parse_pickle(std::string_view bytes, std::string_view file);

}  // namespace brigade::checkpoint
