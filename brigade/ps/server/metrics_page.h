#pragma once

#include <functional>
#include <memory>
#include <string>

namespace brigade::ps {

/// Serves "http://127.0.0.1:<port>/metrics" on its own thread, until it is destroyed. Visitors that
/// send nothing, garbage or too much, and very many, hold up neither it nor each other
/// (`rpc::HttpServer`).
///
/// Thread-safety: all functions from any thread.
class MetricsPage {
 public:
  /// Port 0 takes a free one. `text` is called on the page's thread for each visitor; what it
  /// throws is answered as an error of the server. Throws kInvalidArgument for a port that is none,
  /// and kUnavailable, naming it, for one that is taken.
  MetricsPage(int port, std::function<std::string()> text);
  ~MetricsPage();
  MetricsPage(const MetricsPage&) = delete;
  MetricsPage& operator=(const MetricsPage&) = delete;

  int port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace brigade::ps
