// A process that joins the rendezvous of its launcher, for members_test.py: prints "joined PID",
// and stays until a member is lost, which it prints, or a SIGTERM comes.
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "brigade/base/error.h"
#include "brigade/cluster/resolver.h"
#include "brigade/rpc/rendezvous.h"

int main() {
  try {
    const auto config = brigade::cluster::resolve_cluster();
    const auto membership = brigade::rpc::join(config, {.start_timeout = std::chrono::seconds(60)});
    std::cout << "joined " << membership->generation() << ' ' << ::getpid() << std::endl;
    membership->get("what nobody sets", std::chrono::hours(1));
  } catch (const brigade::Error& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
