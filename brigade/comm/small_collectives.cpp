#include "brigade/comm/small_collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

std::int64_t all_reduce_number(Communicator& communicator, std::int64_t mine, ReduceOp op) {
  const at::Tensor number = at::full({1}, mine, at::kLong);
  communicator.all_reduce({&number, 1}, op)->wait();
  return number.item<std::int64_t>();
}

std::vector<bool> all_reduce_flags(Communicator& communicator, const std::vector<bool>& mine) {
  const at::Tensor flags = at::empty({static_cast<std::int64_t>(mine.size())}, at::kInt);
  std::ranges::copy(mine, flags.mutable_data_ptr<int>());
  communicator.all_reduce({&flags, 1}, ReduceOp::kMax)->wait();
  const int* const flag = flags.const_data_ptr<int>();
  std::vector<bool> on_any(mine.size());
  for (std::size_t i = 0; i < on_any.size(); ++i) on_any[i] = flag[i] != 0;
  return on_any;
}

std::vector<std::string> all_gather_texts(Communicator& communicator, const std::string& mine) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(mine.size())}, at::kByte);
  if (!mine.empty()) std::memcpy(bytes.mutable_data_ptr(), mine.data(), mine.size());
  std::vector<std::string> texts;
  for (const at::Tensor& each : communicator.all_gather(bytes)) {
    texts.emplace_back(static_cast<const char*>(each.const_data_ptr()),
                       static_cast<std::size_t>(each.numel()));
  }
  return texts;
}

namespace {

constexpr char kFactSeparator = '\0';

FactDifference difference_of(int rank, const Facts& own, const Facts& first) {
  std::size_t i = 0;
  while (i < std::min(own.size(), first.size()) && own[i] == first[i]) ++i;
  // If one list is longer, its next fact is the difference.
  const std::string& name = (own.size() >= first.size() ? own : first)[i].name;
  const auto value_in = [&](const Facts& facts) {
    const bool has_it = i < facts.size() && facts[i].name == name;
    return has_it ? std::optional(facts[i].value) : std::nullopt;
  };
  return {.rank = rank, .name = name, .value = value_in(own), .first_value = value_in(first)};
}

// A difference ends the workers, and a worker that has ended is lost to those that still compare:
// so all wait here until all have compared. A worker whose wait fails has compared too.
void wait_for_all(Communicator& workers) {
  try {
    all_reduce_number(workers, 0, ReduceOp::kSum);
  } catch (const Error&) {
  }
}

}  // namespace

std::string to_text(const Facts& facts) {
  std::string text;
  for (const Fact& fact : facts) {
    if (!text.empty()) text += kFactSeparator;
    text += fact.name;
    text += kFactSeparator;
    text += fact.value;
  }
  return text;
}

Facts facts_in(const std::string& text) {
  const std::vector<std::string> parts = base::split(text, kFactSeparator);
  Facts facts;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) facts.push_back({parts[i], parts[i + 1]});
  return facts;
}

std::optional<FactDifference> find_difference(std::span<const Facts> by_rank) {
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] != by_rank[0])
      return difference_of(static_cast<int>(rank), by_rank[rank], by_rank[0]);
  }
  return std::nullopt;
}

std::optional<FactDifference> find_difference(Communicator& workers, const Facts& own) {
  std::vector<Facts> by_rank;
  for (const std::string& text : all_gather_texts(workers, to_text(own)))
    by_rank.push_back(facts_in(text));
  auto found = find_difference(by_rank);
  if (found) wait_for_all(workers);
  return found;
}

}  // namespace brigade::comm
