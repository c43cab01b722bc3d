#include "brigade/ps/server/server_threads.h"

#include <exception>
#include <latch>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

ServerThreads::ServerThreads(int servers) {
  check_argument(servers > 0, "A job has ", servers, " parameter servers; it needs at least 1.");
  for (int server = 1; server < servers; ++server)
    threads_.push_back(std::make_unique<concurrency::ThreadPool>(
        concurrency::ThreadPoolOptions{.threads = 1, .name = base::str_cat("ps", server, "-")}));
}

void ServerThreads::run(const std::function<void(int server)>& work) {
  std::vector<std::exception_ptr> errors(threads_.size() + 1);
  std::latch running(static_cast<std::ptrdiff_t>(threads_.size()));
  const auto guarded = [&](std::size_t server) {
    try {
      work(static_cast<int>(server));
    } catch (...) {
      errors[server] = std::current_exception();
    }
  };
  for (std::size_t server = 1; server < errors.size(); ++server) {
    try {
      threads_[server - 1]->submit([&, server] {
        guarded(server);
        running.count_down();
      });
    } catch (...) {  // the others use this frame: it must outlive them
      errors[server] = std::current_exception();
      running.count_down();
    }
  }
  guarded(0);
  running.wait();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace brigade::ps
