#include "tests/process/progress_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::process {
namespace {

constexpr std::size_t kBytes = 4096;

template <class T, class Value>
void store(T& field, Value value) {
  std::atomic_ref<T>(field).store(static_cast<T>(value), std::memory_order_release);
}

void* map(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory =
      file < 0 ? MAP_FAILED : ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kUnavailable, base::str_cat("cannot map ", path, " into memory"));
  }
  return memory;
}

}  // namespace

ProgressPage::ProgressPage(const std::filesystem::path& path)
    : page_(static_cast<Layout*>(map(path))) {}
ProgressPage::~ProgressPage() {
  ::munmap(page_, kBytes);
}

void ProgressPage::set(TrainerPhase phase) {
  store(page_->trainer, phase);
}
void ProgressPage::set(WriterPhase phase) {
  store(page_->writer, phase);
}
TrainerPhase ProgressPage::trainer() const {
  return static_cast<TrainerPhase>(std::atomic_ref(page_->trainer).load());
}
WriterPhase ProgressPage::writer() const {
  return static_cast<WriterPhase>(std::atomic_ref(page_->writer).load());
}
void ProgressPage::set_step(std::int64_t step) {
  store(page_->step, step);
}
void ProgressPage::set_published(std::int64_t step) {
  store(page_->published, step);
}
void ProgressPage::set_begun(std::int64_t step, std::int64_t broken) {
  store(page_->broken, broken);
  store(page_->begun, step);
}

}  // namespace brigade::process
