// A process that joins the rendezvous of its launcher, for members_test.py: prints "joined PID",
// and stays until a member is lost, which it prints, or a SIGTERM comes. With the argument "leave"
// it leaves at once, as planned.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/resolver.h"
#include "brigade/rpc/rendezvous.h"

int main(int count, char** arguments) {
  try {
    const auto config = brigade::cluster::resolve_cluster();
    const auto membership = brigade::rpc::join(config, {.start_timeout = std::chrono::seconds(60)});
    std::cout << "joined " << membership->generation() << ' ' << ::getpid() << std::endl;
    if (count > 1 && std::string_view(arguments[1]) == "leave") return 0;
    membership->get("what nobody sets", std::chrono::hours(1));
  } catch (const brigade::Error& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
