#include "brigade/train/callbacks/csv_logger.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

class CsvLoggerCallback final : public Callback {
 public:
  explicit CsvLoggerCallback(CsvLogger options) : options_(std::move(options)) {}

  void on_train_begin(FitContext&) override {
    const bool appends = options_.append;
    std::error_code none;
    const auto size = std::filesystem::file_size(options_.path, none);
    has_header_ = appends && !none && size > 0;
    names_.clear();
    file_.close();
    file_.clear();
    file_.open(options_.path, appends ? std::ios::app : std::ios::trunc);
    file_.precision(std::numeric_limits<double>::max_digits10);
    check_written();
  }

  void on_epoch_end(FitContext& fit) override {
    if (names_.empty()) choose_names(fit.logs());
    if (!has_header_) write_header();
    file_ << fit.epoch();
    for (const std::string& name : names_) {
      const auto found = fit.logs().find(name);
      file_ << options_.separator;
      if (found == fit.logs().end()) {
        file_ << "NA";
      } else {
        file_ << found->second;
      }
    }
    file_ << std::endl;
    check_written();
  }

  void on_train_end(FitContext&) override { file_.close(); }

 private:
  // If the first epoch has no validation, adds columns for that of later epochs.
  void choose_names(const Logs& logs) {
    for (const auto& [name, value] : logs) names_.push_back(name);
    const bool has_validation = std::any_of(
        names_.begin(), names_.end(), [](const auto& name) { return name.rfind("val_", 0) == 0; });
    if (has_validation) return;
    const std::size_t count = names_.size();
    for (std::size_t i = 0; i < count; ++i) names_.push_back("val_" + names_[i]);
  }

  void write_header() {
    file_ << "epoch";
    for (const std::string& name : names_) file_ << options_.separator << name;
    file_ << "\n";
    has_header_ = true;
  }

  void check_written() const {
    if (file_.good()) return;
    throw Error(ErrorCode::kUnavailable,
                base::str_cat("CsvLogger: cannot write ", std::string(options_.path),
                              ". Does its directory exist, and is there space on the disk?"));
  }

  const CsvLogger options_;
  std::ofstream file_;
  std::vector<std::string> names_;
  bool has_header_ = false;
};

}  // namespace

std::shared_ptr<Callback> CsvLogger::callback() const {
  check_argument(!std::string(path).empty(), "CsvLogger: path is empty.");
  return std::make_shared<CsvLoggerCallback>(*this);
}

}  // namespace brigade::train
