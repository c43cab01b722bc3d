#pragma once

#include <cstdint>
#include <deque>
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
    kGlobal,   ///< text: its name without the module; only those that a state dict needs
    kStorage,  ///< items: what PyTorch says of a storage that lies beside the pickle
    kTensor,   ///< items: the arguments of torch._utils._rebuild_tensor_v2
    kObject,   ///< items: the dict of its attributes, once they are set; of a C++ archive's module
  };
  Kind kind = Kind::kNone;
  union {
    std::int64_t number = 0;
    double real;
  };
  std::string_view text{};  ///< In the pickle's own bytes.
  std::vector<PickleIndex> items{};
};

/// What a pickle says, with no Python and no code in it. It refers to the bytes that it was read
/// from, which must outlive it.
struct Pickle {
  std::deque<PickleValue> values;
  PickleIndex root = 0;
  const PickleValue& at(PickleIndex index) const { return values.at(index); }
};

/// Reads a pickle as far as PyTorch's state dicts need it (plain values, tuples, lists, dicts,
/// OrderedDicts, tensors, parameters), and the archives of libtorch's torch::save (modules, which
/// are nothing but attributes). A pickle is a program; this runs none of it: every
/// instruction and every global beyond those is refused by its name (kInvalidArgument), and what is
/// broken throws kDataLoss.
///
/// Takes at most some 80 bytes of memory for a byte of the pickle, and no more than some 1.5 GB in
/// all, whatever the pickle says: values that are named again are shared, never copied, and one of
/// more than 16 million values is refused (kDataLoss). Thread-safety: a pure function.
Pickle parse_pickle(std::string_view bytes, std::string_view file);

}  // namespace brigade::checkpoint
