// A process that joins the rendezvous of its launcher, for members_test.py: prints "joined PID",
// and stays until a member is lost, which it prints, or a SIGTERM comes. With the argument "leave"
// it leaves immediately, as planned; with "stay" it stays whatever becomes of the others; with
// "add" it adds to a number of the store again and again, prints each sum, and has a peer timeout
// of one second.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string_view>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/cluster/resolver.h"
#include "brigade/rpc/rendezvous.h"

int main(int count, char** arguments) {
  try {
    const auto config = brigade::cluster::resolve_cluster();
    const std::string_view what = count > 1 ? arguments[1] : "";
    const std::chrono::seconds peer_timeout(what == "add" ? 1 : 8);
    const auto membership = brigade::rpc::join(
        config, {.start_timeout = std::chrono::seconds(60), .peer_timeout = peer_timeout});
    std::cout << "joined " << membership->generation() << ' ' << ::getpid() << std::endl;
    if (what == "leave") return 0;
    if (what == "stay") ::pause();
    while (what == "add") {
      std::cout << "sum " << membership->add("number", 1) << std::endl;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    membership->get("what nobody sets", std::chrono::hours(1));
  } catch (const brigade::Error& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
