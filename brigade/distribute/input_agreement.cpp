#include "brigade/distribute/input_agreement.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_values.h"

namespace brigade::distribute {

namespace {

using base::str_cat;

constexpr std::string_view kPolicy = "way to share out";
constexpr std::string_view kFiles = "list of files";
constexpr std::string_view kEpoch = "epoch";
constexpr std::string_view kKind = "kind of input";
constexpr std::string_view kReplication = "InputReplication";

struct Fact {
  std::string name;
  std::string value;
  bool operator==(const Fact&) const = default;
};
using Facts = std::vector<Fact>;

/// Which facts there are follows from those before them: where all those of two workers are equal,
/// the next has the same name.
Facts facts_of(const InputNature& own) {
  using Policy = AutoShardPolicy;
  if (own.kind == BatchKind::kPerReplica) {
    const bool is_shared = own.replication == InputReplication::kPerWorker;
    return {{std::string(kKind), "distribute_from_function"},
            {std::string(kReplication), is_shared ? "kPerWorker" : "kPerReplica"}};
  }
  Facts facts = {{std::string(kKind), "distribute"},
                 {std::string(kPolicy), std::string(to_string(own.policy))}};
  if (own.policy == Policy::kFile) facts.push_back({std::string(kFiles), str_cat(own.files)});
  if (own.policy != Policy::kOff) {
    for (std::size_t i = 0; i < own.recipe.size(); ++i)
      facts.push_back({str_cat("step ", i + 1, " of the dataset"), own.recipe[i].text});
  }
  if (own.policy != Policy::kFile) facts.push_back({"number of batches", str_cat(own.cardinality)});
  if (own.policy == Policy::kData || own.policy == Policy::kHint)
    facts.push_back({std::string(kEpoch), str_cat(own.epoch)});
  return facts;
}

std::string_view advice_on(std::string_view name) {
  if (name == kKind) return "make the input in the same way in all of them.";
  if (name == kReplication) return "give all of them the same InputOptions.";
  if (name == kPolicy)
    return "AutoShardPolicy::kAuto is decided by the dataset's files, so all workers must see as "
           "many, or choose a policy.";
  if (name == kFiles)
    return "the same names must come in the same order everywhere (sort what a directory lists).";
  if (name == kEpoch)
    return "a dataset counts its walks, so all workers must begin as many of them.";
  return "distribute needs the same dataset everywhere (an interleave without a cycle_length goes "
         "by the machine's cores); for data of their own use distribute_from_function.";
}

constexpr char kSeparator = '\0';

std::string text_of(const Facts& facts) {
  std::string text;
  for (const Fact& fact : facts) {
    if (!text.empty()) text += kSeparator;
    text += fact.name;
    text += kSeparator;
    text += fact.value;
  }
  return text;
}

Facts facts_in(const std::string& text) {
  const std::vector<std::string> parts = base::split(text, kSeparator);
  Facts facts;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) facts.push_back({parts[i], parts[i + 1]});
  return facts;
}

std::string difference(std::size_t worker, const Facts& own, const Facts& first) {
  std::size_t i = 0;
  while (i < std::min(own.size(), first.size()) && own[i] == first[i]) ++i;
  // Where one dataset has more steps than the other, the next step is what differs.
  const std::string name = (own.size() >= first.size() ? own : first)[i].name;
  const auto value_in = [&](const Facts& facts) {
    return i < facts.size() && facts[i].name == name ? facts[i].value : "nothing";
  };
  return str_cat("The workers' inputs do not go together: worker ", worker, " has another ", name,
                 " than worker 0, ", value_in(own), " and not ", value_in(first), ": ",
                 advice_on(name));
}

}  // namespace

void check_same_input(comm::Communicator& workers, const InputNature& own) {
  const std::vector<std::string> all = comm::all_gather_texts(workers, text_of(facts_of(own)));
  for (std::size_t worker = 1; worker < all.size(); ++worker) {
    if (all[worker] == all[0]) continue;
    throw Error(ErrorCode::kInvalidArgument,
                difference(worker, facts_in(all[worker]), facts_in(all[0])));
  }
}

}  // namespace brigade::distribute
