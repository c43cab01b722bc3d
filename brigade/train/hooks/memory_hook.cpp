#include "brigade/train/hooks/memory_hook.h"

#include <optional>

#include "brigade/machine/process_memory.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/session_context.h"

namespace brigade::train {
namespace {

class MemorySummaries final : public SessionRunHook {
 public:
  explicit MemorySummaries(Every every) : every_(every) {}

  void begin(SessionContext& context) override { timer_.emplace(every_, context.clock()); }

  void after_run(SessionContext& context, const StepValues&) override {
    const std::int64_t step = context.global_step();
    if (context.summaries() == nullptr || !timer_->is_due(step)) return;
    timer_->mark(step);
    context.summaries()->scalar("memory/resident_bytes",
                                static_cast<double>(machine::process_memory().resident), step);
  }

 private:
  const Every every_;
  std::optional<StepTimer> timer_;
};

}  // namespace

std::shared_ptr<SessionRunHook> MemoryHook::hook() const {
  return std::make_shared<MemorySummaries>(every);
}

}  // namespace brigade::train
