#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/task.h"
#include "brigade/io/state_tree.h"
#include "brigade/ps/server/job_config.h"

/// Messages as state trees. A message lists its fields once, for both directions:
///
///   void list_fields(auto& fields, MaybeConst<Vote> auto& vote) {
///     fields("life", vote.life);
///     fields.count("epoch", vote.epoch);
///   }
///
/// `to_state` and `message_of` then write and read it. What was read is checked: a number fits its
/// type, and a time is from 0 to a year.
namespace brigade::ps {

template <class M, class Message>
concept MaybeConst = std::same_as<std::remove_const_t<M>, Message>;

template <class T>
struct OptionalField : std::false_type {};
template <class T>
struct OptionalField<std::optional<T>> : std::true_type {};

/// The token whose bytes are these hexadecimal digits: the inverse of `base::to_hex`.
std::string token_of_hex(std::string_view digits);

/// Throws kInvalidArgument: a message of another process is damaged.
[[noreturn]] void refuse_message(std::string_view why);

/// Calls `read`; whatever it cannot read is a damaged message.
template <class Read>
auto reading(const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // c10's, too, for sizes that no tensor has
    refuse_message(base::without_stack_trace(error.what()));
  }
}

struct FieldWriter;

template <class Message>
concept HasFields = requires(FieldWriter& fields, const Message& message) {
  list_fields(fields, message);
};

template <HasFields Message>
io::StateTree to_state(const Message& message);
template <class Message>
Message part_of(const io::StateTree& state);

struct FieldWriter {
  io::StateTree tree = io::StateTree::dict();

  template <class T>
  void operator()(std::string_view key, const T& value) {
    if constexpr (OptionalField<T>::value) {
      if (value) (*this)(key, *value);
    } else if constexpr (std::same_as<T, std::chrono::milliseconds>) {
      tree[key] = std::int64_t{value.count()};
    } else if constexpr (std::same_as<T, std::vector<std::string>>) {
      tree[key] = io::StateTree::List(value.begin(), value.end());
    } else if constexpr (std::constructible_from<io::StateTree, const T&>) {
      tree[key] = value;
    } else if constexpr (requires { value.save(); }) {
      tree[key] = value.save();
    } else {
      tree[key] = to_state(value);
    }
  }
  /// A number, or optional number, that is not negative.
  template <class T>
  void count(std::string_view key, const T& value) {
    (*this)(key, value);
  }
  /// One from 0 to `last`, or unset.
  template <class T, class Enum>
  void enumerator(std::string_view key, const T& value, Enum last) {
    if constexpr (OptionalField<T>::value) {
      if (value) enumerator(key, *value, last);
    } else {
      tree[key] = static_cast<int>(value);
    }
  }
  /// Left out if it is false.
  void flag(std::string_view key, bool value) {
    if (value) tree[key] = true;
  }
  void token(std::string_view key, std::string_view value) {
    tree[key] = base::to_hex(std::as_bytes(std::span(value)));
  }
  void task(std::string_view key, const cluster::Task& value) { tree[key] = to_string(value); }
};

struct FieldReader {
  const io::StateTree& tree;

  template <class T>
  void operator()(std::string_view key, T& value) const {
    if constexpr (OptionalField<T>::value) {
      if (tree.has(key)) (*this)(key, value.emplace());
    } else if constexpr (std::same_as<T, bool>) {
      value = tree.as_bool(key);
    } else if constexpr (std::same_as<T, double>) {
      value = tree.as_double(key);
    } else if constexpr (std::same_as<T, std::string>) {
      value = tree.as_string(key);
    } else if constexpr (std::integral<T>) {
      const std::int64_t number = tree.as_int64(key);
      check_argument(std::in_range<T>(number), key, " is ", number, ".");
      value = static_cast<T>(number);
    } else if constexpr (std::same_as<T, std::chrono::milliseconds>) {
      constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
      value = std::chrono::milliseconds(tree.as_int64(key));
      check_argument(value.count() >= 0 && value <= kLongest, key, " is ", value.count(), " ms.");
    } else if constexpr (std::same_as<T, std::vector<std::string>>) {
      for (const io::StateTree& text : tree.as_list(key)) value.push_back(text.as_string());
    } else if constexpr (std::same_as<T, io::StateTree>) {
      value = tree.at(key);
    } else if constexpr (std::same_as<T, JobConfig>) {
      value = job_from_state(tree.at(key));
    } else if constexpr (requires { T::restore(tree); }) {
      value = T::restore(tree.at(key));
    } else {
      value = part_of<T>(tree.at(key));
    }
  }
  template <class T>
  void count(std::string_view key, T& value) const {
    (*this)(key, value);
    if constexpr (OptionalField<T>::value) {
      if (value) check_argument(*value >= 0, key, " is ", *value, ".");
    } else {
      check_argument(value >= 0, key, " is ", value, ".");
    }
  }
  template <class T, class Enum>
  void enumerator(std::string_view key, T& value, Enum last) const {
    if (OptionalField<T>::value && !tree.has(key)) return;
    const std::int64_t number = tree.as_int64(key);
    check_argument(number >= 0 && number <= static_cast<std::int64_t>(last), key, " is ", number,
                   ".");
    value = static_cast<Enum>(number);
  }
  void flag(std::string_view key, bool& value) const { value = tree.has(key) && tree.as_bool(key); }
  void token(std::string_view key, std::string& value) const {
    value = token_of_hex(tree.as_string(key));
  }
  void task(std::string_view key, cluster::Task& value) const {
    value = cluster::parse_task(tree.as_string(key));
  }
};

template <HasFields Message>
io::StateTree to_state(const Message& message) {
  FieldWriter fields;
  list_fields(fields, message);
  return std::move(fields.tree);
}

/// For a part of a message: its errors do not say that a message is damaged.
template <class Message>
Message part_of(const io::StateTree& state) {
  const FieldReader fields{state};
  Message message;
  list_fields(fields, message);
  return message;
}

/// Throws kInvalidArgument for what `to_state` cannot have written.
template <class Message>
Message message_of(const io::StateTree& state) {
  return reading([&] { return part_of<Message>(state); });
}

}  // namespace brigade::ps
