#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "brigade/cluster/environment_variables.h"
#include "brigade/comm/nccl/nccl_agreement.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/distribute/testing/worker_threads.h"

namespace brigade::distribute {

/// For tests: a worker of a job of several, with one logical GPU of the fake device, which the fake
/// NCCL connects with the others'. What `MultiWorkerMirroredStrategy` is on GPUs. Models must be
/// made on the device.
class CardWorkerStrategy final : public Strategy {
 public:
  CardWorkerStrategy(std::shared_ptr<cluster::Membership> membership,
                     const comm::NcclLibrary& library)
      : Strategy(parts_of(std::move(membership), library)) {}

 private:
  static StrategyParts parts_of(std::shared_ptr<cluster::Membership> membership,
                                const comm::NcclLibrary& library) {
    const MultiWorkerMirroredOptions options = worker_cpus(1);
    StrategyParts parts = mirrored_parts("card_workers", logical_cards(1));
    parts.workers =
        make_worker_group(std::move(membership), {.devices = 1,
                                                  .on_cpu = false,
                                                  .communication = options.communication,
                                                  .join = options.join});
    parts.card_communicators = [&library](auto members, const auto& devices, auto host,
                                          const auto& communication) {
      return comm::make_nccl_process_communicators(
          &library, cluster::make_environment({{"NCCL_SOCKET_IFNAME", "lo"}}), std::move(members),
          devices, std::move(host), communication);
    };
    parts.timeout = options.timeout;
    return parts;
  }
};

/// For tests: runs such workers as threads of this process, as `run_workers` does.
inline void run_card_workers(int workers, const std::function<void(CardWorkerStrategy&)>& work) {
  device::testing::FakeDevice::get();
  comm::let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(workers);
  comm::Wire wire;
  const comm::WireLibrary library(wire);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(workers));
  comm::run_threads(workers, [&](int worker) {
    const auto index = static_cast<std::size_t>(worker);
    try {
      CardWorkerStrategy strategy(memberships[index], library);
      work(strategy);
    } catch (...) {
      thrown[index] = std::current_exception();
      cluster::testing::lose(*memberships[index], worker, "its thread threw");
    }
  });
  comm::rethrow_first(thrown);
}

}  // namespace brigade::distribute
