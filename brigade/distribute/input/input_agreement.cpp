#include "brigade/distribute/input/input_agreement.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/worker_facts.h"

namespace brigade::distribute {

namespace {

using base::str_cat;
using comm::Facts;

constexpr std::string_view kPolicy = "AutoShardPolicy";
constexpr std::string_view kFiles = "list of files";
constexpr std::string_view kEpoch = "epoch";
constexpr std::string_view kKind = "kind of input";
constexpr std::string_view kReplication = "InputReplication";

Facts facts_of(const InputDescription& own) {
  using Policy = AutoShardPolicy;
  if (own.kind == BatchKind::kPerReplica) {
    const bool is_per_worker = own.replication == InputReplication::kPerWorker;
    return {{std::string(kKind), "distribute_from_function"},
            {std::string(kReplication), is_per_worker ? "kPerWorker" : "kPerReplica"}};
  }
  Facts facts = {{std::string(kKind), "distribute"},
                 {std::string(kPolicy), std::string(to_string(own.policy))}};
  if (own.policy == Policy::kFile) facts.push_back({std::string(kFiles), str_cat(own.files)});
  if (own.policy != Policy::kOff) {
    for (std::size_t i = 0; i < own.pipeline.size(); ++i)
      facts.push_back({str_cat("step ", i + 1, " of the dataset"), own.pipeline[i].text});
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
    return "AutoShardPolicy::kAuto depends on the dataset's number of files, so all workers must "
           "see the same number, or choose a policy.";
  if (name == kFiles)
    return "the same names must come in the same order everywhere (sort what a directory lists).";
  if (name == kEpoch)
    return "a dataset counts its epochs, so all workers must start the same number of iterators.";
  return "distribute needs the same dataset in all workers (an interleave without a cycle_length "
         "depends on the machine's cores); for different data use distribute_from_function.";
}

std::string difference(const comm::FactDifference& found) {
  return str_cat("The workers' inputs do not match: worker ", found.rank, " has another ",
                 found.name, " than worker 0, ", found.value.value_or("nothing"), " and not ",
                 found.first_value.value_or("nothing"), ": ", advice_on(found.name));
}

}  // namespace

void check_same_input(comm::Communicator& workers, const InputDescription& own) {
  const auto found = comm::find_difference(workers, facts_of(own));
  if (found) throw Error(ErrorCode::kInvalidArgument, difference(*found));
}

}  // namespace brigade::distribute
