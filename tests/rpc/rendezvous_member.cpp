// One member of a cluster, for rendezvous_faults_test.py:
//   rpc_member RANK WORLD_SIZE ADDRESS PEER_TIMEOUT_MS START_TIMEOUT_MS
// Joins (rank 0 serves), prints "joined", waits for a key that nobody sets until something ends the
// wait, and prints "error CODE: TEXT". A line on its input ends it as planned.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/rpc/rendezvous.h"

namespace {

using std::chrono::milliseconds;

int report(const brigade::Error& error) {
  std::cout << "error " << brigade::to_string(error.code()) << ": " << error.what() << std::endl;
  return 1;
}

int run(char** arguments) {
  brigade::cluster::ClusterConfig config;
  config.rank = std::stoi(arguments[1]);
  config.task = {"worker", config.rank};
  config.world_size = std::stoi(arguments[2]);
  config.rendezvous = arguments[3];
  auto membership =
      brigade::rpc::join(config, {.start_timeout = milliseconds(std::stoi(arguments[5])),
                                  .peer_timeout = milliseconds(std::stoi(arguments[4]))});
  std::cout << "joined" << std::endl;
  std::atomic<bool> is_leaving{false};
  const std::jthread end([&] {
    std::string line;
    if (!std::getline(std::cin, line)) return;
    is_leaving = true;
    membership->leave();
    std::cout << "left" << std::endl;
    std::_Exit(0);
  });
  try {
    membership->get("what nobody sets", std::chrono::hours(1));
  } catch (const brigade::Error& error) {
    if (is_leaving) return 0;  // the other thread ends the process
    report(error);
    membership.reset();  // the rendezvous in rank 0 has still to notify the others
    std::_Exit(1);       // the other thread reads on
  }
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  try {
    return run(arguments);
  } catch (const brigade::Error& error) {
    return report(error);
  }
}
