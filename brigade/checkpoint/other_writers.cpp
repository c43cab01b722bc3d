#include "brigade/checkpoint/other_writers.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/first_error.h"

namespace brigade::checkpoint {

// One save: the files, the rank that writes each, and their checksums.
struct OtherWriters::Work {
  io::FileSystem& files;
  const io::Path& folder;
  const std::vector<ShardFile>& shards;
  std::vector<int> writers;
  std::vector<Seal> seals;
  std::int64_t save = 0;
  std::size_t num_threads = 1;

  std::vector<std::size_t> of(const auto& is_it) const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (is_it(writers[i])) indices.push_back(i);
    }
    return indices;
  }

  void write(const std::vector<std::size_t>& indices) {
    std::vector<const ShardFile*> chosen;
    for (const std::size_t i : indices) chosen.push_back(&shards[i]);
    const std::vector<Seal> written = write_shards(files, folder, chosen, num_threads);
    for (std::size_t i = 0; i < indices.size(); ++i) seals[indices[i]] = written[i];
  }

  /// Why the files reported by `rank` cannot be used; empty if they can.
  std::string mismatch(int rank, const ShardReport& report) const {
    std::vector<ManifestFile> expected;
    for (const std::size_t i : of([&](int writer) { return writer == rank; })) {
      expected.push_back({shards[i].name, seals[i]});
    }
    for (const ManifestFile& each : expected) {
      if (std::find(report.files.begin(), report.files.end(), each) == report.files.end())
        return base::str_cat("its file ", each.name, " differs from what the chief has");
      const auto info = files.info(folder / each.name);
      if (!info || info->kind != io::FileKind::kFile || info->size != each.seal.bytes)
        return base::str_cat("its file ", each.name, " is not visible to the chief");
    }
    return "";
  }
};

OtherWriters::OtherWriters(std::shared_ptr<ShardExchange> exchange)
    : exchange_(std::move(exchange)) {
  check_argument(exchange_ != nullptr && exchange_->rank() == 0,
                 "Saver: only the chief, rank 0, saves; the others have a ShardWriter");
}

void OtherWriters::announce(Announcement announcement) {
  announcement.left_out = announced_.left_out;
  announced_ = std::move(announcement);
  exchange_->post(announced_.text());
}

// A process that cannot be reached notices that the chief is gone.
void OtherWriters::post_quietly() noexcept {
  try {
    exchange_->post(announced_.text());
  } catch (const std::exception&) {
  }
}

void OtherWriters::give_up(std::int64_t save) noexcept {
  if (announced_.save >= save) return;
  announced_.save = save;
  announced_.folder.clear();
  post_quietly();
}

void OtherWriters::end() noexcept {
  if (std::exchange(announced_.has_ended, true)) return;
  post_quietly();
}

void OtherWriters::exclude(int rank, const std::string& reason) {
  announced_.left_out.insert(rank);
  base::log_warning(
      exchange_->name(rank),
      " writes no part of checkpoints; from now on the chief writes that part: ", reason);
}

void OtherWriters::take_report(int rank, Work& work) {
  const auto is_expected = [&](const std::string& text) {
    const auto report = ShardReport::parse(text);
    return report.save >= work.save || report.has_ended;
  };
  const auto report = ShardReport::parse(exchange_->wait_for(rank, is_expected));
  if (report.save != work.save) {
    throw Error(ErrorCode::kUnavailable, exchange_->name(rank),
                " ended before it wrote its part of the checkpoint");
  }
  switch (report.result) {
    case ShardReport::Result::kFailed:
      throw Error(report.code, exchange_->name(rank),
                  " could not write its part of the checkpoint: ", report.reason);
    case ShardReport::Result::kDeclined:
      return exclude(rank, report.reason);
    case ShardReport::Result::kWritten:
      break;
  }
  const std::string mismatch = work.mismatch(rank, report);
  if (!mismatch.empty()) exclude(rank, mismatch);
}

std::vector<Seal> OtherWriters::write(std::int64_t save, io::FileSystem& files,
                                      const io::Path& folder, const std::vector<ShardFile>& shards,
                                      std::size_t num_threads) {
  Work work{.files = files,
            .folder = folder,
            .shards = shards,
            .writers = assign_writers(shards, count()),
            .seals = std::vector<Seal>(shards.size()),
            .save = save,
            .num_threads = num_threads};
  const std::set<int> left_out = announced_.left_out;
  const auto is_left_out = [&](int rank) { return left_out.contains(rank); };
  announce({.save = save, .folder = folder.filename().string(), .digest = digest_of(shards)});
  concurrency::FirstError error;
  error.attempt(
      [&] { work.write(work.of([&](int rank) { return rank == 0 || is_left_out(rank); })); });
  error.attempt([&] {
    for (const std::size_t i : work.of([&](int rank) { return rank != 0 && !is_left_out(rank); }))
      work.seals[i] = seal_of(shards[i]);
  });
  // Even after an error: no process may still be writing when the folder is removed.
  for (int rank = 1; rank < count(); ++rank) {
    if (!is_left_out(rank)) error.attempt([&] { take_report(rank, work); });
  }
  error.rethrow();
  const auto refused =
      work.of([&](int rank) { return announced_.left_out.contains(rank) && !is_left_out(rank); });
  for (const std::size_t i : refused) files.remove(folder / shards[i].name);
  if (!refused.empty()) work.write(refused);
  return work.seals;
}

}  // namespace brigade::checkpoint
