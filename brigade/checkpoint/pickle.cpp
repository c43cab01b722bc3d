#include "brigade/checkpoint/pickle.h"

#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::checkpoint {
namespace {

using Kind = PickleValue::Kind;

constexpr PickleIndex kMark = 0xffffffff;
// A state dict of a million tensors has some twelve million values.
constexpr std::size_t kMostPickleValues = 16'000'000;

// The allowed globals differ by name, whatever their modules.
constexpr std::string_view kOrderedDict = "OrderedDict";
constexpr std::string_view kTensor = "_rebuild_tensor_v2";
constexpr std::string_view kParameter = "_rebuild_parameter";
constexpr std::string_view kSize = "Size";
// Including metadata, which newer versions of PyTorch may add.
constexpr std::size_t kMostTensorArguments = 7;
constexpr std::size_t kStorageParts = 5;

// The types that libtorch's C++ archives use for their modules.
bool is_module(std::string_view module) {
  return module == "__torch__" || module.starts_with("__torch__.");
}

// The caller, who knows dtypes, distinguishes storages.
bool is_allowed(std::string_view module, std::string_view name) {
  if (is_module(module)) return true;
  if (module == "collections") return name == kOrderedDict;
  if (module == "torch._utils") return name == kTensor || name == kParameter;
  if (module == "torch.storage") return name == "UntypedStorage";
  return module == "torch" && (name == kSize || name.ends_with("Storage"));
}

/// The pickle machine, without the instructions that could run code.
class Machine {
 public:
  Machine(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  Pickle run() {
    while (!is_done_) step(static_cast<unsigned char>(take(1).front()));
    return std::move(pickle_);
  }

 private:
  template <class... T>
  [[noreturn]] void fail(const T&... pieces) const {
    throw Error(ErrorCode::kDataLoss, file_, ": not a valid pickle: ", pieces...);
  }
  template <class... T>
  [[noreturn]] void refuse(const T&... pieces) const {
    throw Error(ErrorCode::kInvalidArgument, file_, ": ", pieces...,
                "; only state dicts of tensors can be read, and no code is run");
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        return check_protocol(static_cast<unsigned char>(take(1).front()));
      case 0x95:  // FRAME
        take(8);
        return;
      case '.':
        return finish();
      case '(':
        return stack_.push_back(kMark);
      case 'N':
        return push({.kind = Kind::kNone});
      case 0x88:
        return push({.kind = Kind::kBool, .number = 1});
      case 0x89:
        return push({.kind = Kind::kBool, .number = 0});
      case 'J':
        return push({.kind = Kind::kInt, .number = number<std::int32_t>()});
      case 'K':
        return push({.kind = Kind::kInt, .number = number<std::uint8_t>()});
      case 'M':
        return push({.kind = Kind::kInt, .number = number<std::uint16_t>()});
      case 0x8a:  // LONG1
        return push({.kind = Kind::kInt, .number = long_number(number<std::uint8_t>())});
      case 'G':
        return push({.kind = Kind::kFloat, .real = real()});
      case 'X':
      case 'T':
        return push_text(number<std::uint32_t>());
      case 'U':
      case 0x8c:  // SHORT_BINUNICODE
        return push_text(number<std::uint8_t>());
      default:
        return step_with_containers(code);
    }
  }

  void step_with_containers(unsigned char code) {
    switch (code) {
      case ')':
        return push({.kind = Kind::kTuple});
      case ']':
        return push({.kind = Kind::kList});
      case '}':
        return push({.kind = Kind::kDict});
      case 't':
        return push({.kind = Kind::kTuple, .items = pop_to_mark()});
      case 0x85:
      case 0x86:
      case 0x87:
        return push({.kind = Kind::kTuple, .items = pop_last(code - 0x84u)});
      case 'a':
        return extend(Kind::kList, pop_last(1));
      case 'e':
        return extend(Kind::kList, pop_to_mark());
      case 's':
        return extend(Kind::kDict, pop_last(2));
      case 'u':
        return extend(Kind::kDict, pop_to_mark());
      default:
        return step_with_memo(code);
    }
  }

  void step_with_memo(unsigned char code) {
    switch (code) {
      case 'q':
        return memorize(number<std::uint8_t>());
      case 'r':
        return memorize(number<std::uint32_t>());
      case 0x94:  // MEMOIZE
        return memorize(remembered_);
      case 'h':
        return recall(number<std::uint8_t>());
      case 'j':
        return recall(number<std::uint32_t>());
      case 'c':
        return push_global();
      case 0x93: {  // STACK_GLOBAL
        const auto names = pop_last(2);
        return push_global(text_of(names[0]), text_of(names[1]));
      }
      case 'R':
        return reduce();
      case 0x81:  // NEWOBJ
        return make_object();
      case 'b':
        return build();
      case 'Q':
        return push_storage();
      default:
        refuse("the pickle has the instruction 0x",
               base::to_hex(std::as_bytes(std::span(&code, 1))), " at byte ", position_ - 1);
    }
  }

  std::string_view take(std::uint64_t bytes) {
    if (bytes > bytes_.size() - position_) fail("it ends too early (was it cut short?)");
    const auto piece = bytes_.substr(position_, bytes);
    position_ += bytes;
    return piece;
  }
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  double real() {  // big-endian
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(bits);
  }
  std::int64_t long_number(std::size_t bytes) {
    if (bytes > 8) fail("an integer has ", bytes, " bytes; expected at most 8");
    const auto piece = take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(piece[i])) << (8 * i);
    }
    const bool is_negative = bytes > 0 && (piece.back() & 0x80) != 0;
    if (is_negative && bytes < 8) value |= ~std::uint64_t{0} << (8 * bytes);
    return static_cast<std::int64_t>(value);
  }
  std::string_view line() {
    const auto end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) fail("a name has no end");
    const auto text = take(end - position_);
    take(1);
    return text;
  }

  void check_protocol(unsigned char protocol) const {
    if (protocol < 2 || protocol > 5) fail("its protocol is ", int{protocol});
  }

  void push(PickleValue value) {
    if (pickle_.values.size() >= kMostPickleValues)
      fail("it has more than ", kMostPickleValues, " values");
    stack_.push_back(static_cast<PickleIndex>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }
  void push_text(std::uint64_t bytes) { push({.kind = Kind::kString, .text = take(bytes)}); }
  void push_global() {
    const auto module = line();
    push_global(module, line());
  }
  void push_global(std::string_view module, std::string_view name) {
    if (!is_allowed(module, name)) {
      refuse("the pickle asks for ", base::quoted(base::str_cat(module, ".", name)));
    }
    push({.kind = Kind::kGlobal, .text = is_module(module) ? module : name});
  }
  void push_storage() {
    const auto& parts = items_of(pop(), Kind::kTuple);
    if (parts.size() != kStorageParts) fail("a storage has ", parts.size(), " parts; expected 5");
    push({.kind = Kind::kStorage, .items = parts});
  }

  PickleIndex pop() { return pop_last(1).front(); }
  std::vector<PickleIndex> pop_last(std::size_t count) {
    if (stack_.size() < count) fail("its stack is empty");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<PickleIndex> items(first, stack_.end());
    for (const PickleIndex each : items) {
      if (each == kMark) fail("there is a mark in place of a value");
    }
    stack_.erase(first, stack_.end());
    return items;
  }
  std::vector<PickleIndex> pop_to_mark() {
    std::size_t count = 0;
    while (count < stack_.size() && stack_[stack_.size() - 1 - count] != kMark) ++count;
    if (count == stack_.size()) fail("a mark is missing");
    auto items = pop_last(count);
    stack_.pop_back();
    return items;
  }
  PickleValue& top(Kind kind) {
    if (stack_.empty() || stack_.back() == kMark) fail("its stack is empty");
    PickleValue& value = pickle_.values[stack_.back()];
    if (value.kind != kind) fail("a value is not of the kind that an instruction needs");
    return value;
  }
  const std::vector<PickleIndex>& items_of(PickleIndex index, Kind kind) const {
    const PickleValue& value = pickle_.values[index];
    if (value.kind != kind) fail("a value is not of the kind that an instruction needs");
    return value.items;
  }
  std::string_view text_of(PickleIndex index) const {
    const PickleValue& value = pickle_.values[index];
    if (value.kind != Kind::kString) fail("a name is not a string");
    return value.text;
  }

  void extend(Kind kind, const std::vector<PickleIndex>& items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a key has no value");
    PickleValue& value = top(kind);
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  // Memo slots are numbered consecutively, so there are no more of them than bytes.
  void memorize(std::uint32_t slot) {
    if (stack_.empty() || stack_.back() == kMark) fail("there is no value to memoize");
    if (slot >= bytes_.size()) fail("it memoizes a value in slot ", slot);
    if (slot >= memo_.size()) memo_.resize(slot + 1, kMark);
    if (std::exchange(memo_[slot], stack_.back()) == kMark) ++remembered_;
  }
  void recall(std::uint32_t slot) {
    if (slot >= memo_.size() || memo_[slot] == kMark) fail("it reads an empty memo slot");
    stack_.push_back(memo_[slot]);
  }

  void reduce() {
    const auto call = pop_last(2);
    const std::vector<PickleIndex>& arguments = items_of(call[1], Kind::kTuple);
    if (pickle_.values[call[0]].kind != Kind::kGlobal)
      refuse("the pickle calls something that is not a function");
    const std::string_view function = pickle_.values[call[0]].text;
    if (function == kOrderedDict && arguments.empty()) {
      push({.kind = Kind::kDict});
    } else if (function == kTensor && arguments.size() >= 6 &&
               arguments.size() <= kMostTensorArguments) {
      push({.kind = Kind::kTensor, .items = arguments});
    } else if (function == kParameter && arguments.size() == 3) {
      if (pickle_.values[arguments[0]].kind != Kind::kTensor) fail("a parameter holds no tensor");
      stack_.push_back(arguments[0]);
    } else if (function == kSize && arguments.size() == 1) {
      const Kind kind = pickle_.values[arguments[0]].kind;
      if (kind != Kind::kTuple && kind != Kind::kList) fail("a size is not a list");
      stack_.push_back(arguments[0]);  // the list itself: copies could grow without limit
    } else {
      refuse("the pickle calls ", base::quoted(function), " with ", arguments.size(), " arguments");
    }
  }

  // Only the type's name is used; no code is attached to it.
  void make_object() {
    const auto call = pop_last(2);
    const PickleValue& type = pickle_.values[call[0]];
    const bool has_arguments = !items_of(call[1], Kind::kTuple).empty();
    if (type.kind != Kind::kGlobal || !is_module(type.text) || has_arguments)
      refuse("the pickle makes an object of ", base::quoted(type.text));
    push({.kind = Kind::kObject});
  }

  // Attributes of a dict (`_metadata` of a state dict) are not tensors.
  void build() {
    const PickleIndex attributes = pop();
    if (!stack_.empty() && stack_.back() != kMark &&
        pickle_.values[stack_.back()].kind == Kind::kObject) {
      items_of(attributes, Kind::kDict);
      pickle_.values[stack_.back()].items = {attributes};
      return;
    }
    if (stack_.empty() || stack_.back() == kMark ||
        pickle_.values[stack_.back()].kind != Kind::kDict) {
      refuse("the pickle sets the attributes of something other than a dict");
    }
  }

  void finish() {
    pickle_.root = pop();
    is_done_ = true;
  }

  std::string_view bytes_;
  std::string_view file_;
  std::size_t position_ = 0;
  Pickle pickle_;
  std::vector<PickleIndex> stack_;
  std::vector<PickleIndex> memo_;  // kMark in empty slots
  std::uint32_t remembered_ = 0;
  bool is_done_ = false;
};

}  // namespace

Pickle parse_pickle(std::string_view bytes, std::string_view file) {
  return Machine(bytes, file).run();
}

}  // namespace brigade::checkpoint
