#include "brigade/ps/server/server_metrics.h"

#include "brigade/rpc/metrics_text.h"

namespace brigade::ps {
namespace {

void add_work(const ServerMetrics& server, rpc::MetricsText& metrics) {
  const ServerCounters& counters = server.counters;
  metrics
      .counter("brigade_ps_pushes_total", "Pushes that were applied, or kept for their step.",
               counters.pushes)
      .counter("brigade_ps_duplicate_pushes_total", "Pushes that came again, and changed nothing.",
               counters.duplicates)
      .counter("brigade_ps_stale_gradients_total",
               "Gradients that came too late for their synchronous step.", counters.stale)
      .counter("brigade_ps_pulls_total", "Pulls that were answered.", counters.pulls)
      .counter("brigade_ps_refused_calls_total",
               "Calls of unknown callers, or not allowed to the caller's role.",
               counters.refused_calls)
      .gauge("brigade_ps_step", "The global step.", server.status.step)
      .gauge("brigade_ps_ready", "Whether workers may use the variables.",
             server.status.is_ready ? 1 : 0)
      .gauge("brigade_ps_members", "Tasks that hold a lease.", server.members)
      .counter("brigade_ps_lost_leases_total", "Leases of tasks that were silent for too long.",
               counters.lost_leases);
}

void add_latencies(const ServerMetrics& server, rpc::MetricsText& metrics) {
  metrics
      .histogram("brigade_ps_push_seconds", "From a push's arrival until it is answered.",
                 server.pushes)
      .histogram("brigade_ps_pull_seconds", "Until the values of a pull are copied.", server.pulls)
      .histogram("brigade_ps_log_sync_seconds", "Until the log is on the disk.", server.log_syncs)
      .gauge("brigade_ps_log_waiting_records", "Records of the log that are not on the disk yet.",
             server.waiting_records)
      .gauge("brigade_ps_log_bytes", "The log since the last snapshot.", server.log_bytes);
}

void add_network(const ServiceLoad& network, rpc::MetricsText& metrics) {
  metrics
      .counter("brigade_ps_received_bytes_total", "Of the messages of calls.",
               network.received_bytes)
      .counter("brigade_ps_sent_bytes_total", "Of the messages of answers.", network.sent_bytes)
      .gauge("brigade_ps_buffered_bytes", "Memory of messages that are received or sent.",
             network.messages.buffered_bytes)
      .gauge("brigade_ps_buffered_bytes_limit", "The most that messages may take.",
             network.messages.max_buffered_bytes)
      .gauge("brigade_ps_calls", "Calls in progress.", network.messages.calls)
      .gauge("brigade_ps_waiting_calls", "Those of them that wait for other workers.",
             network.messages.waits);
}

}  // namespace

std::string to_metrics(const ServerMetrics& server, const ServiceLoad& network) {
  rpc::MetricsText metrics;
  add_work(server, metrics);
  add_latencies(server, metrics);
  add_network(network, metrics);
  return metrics.text();
}

}  // namespace brigade::ps
