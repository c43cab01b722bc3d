#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/io/file_system.h"
#include "brigade/summary/event_file_reader.h"

namespace brigade::train {

/// For tests: the scalars of all event files in a directory, as "tag@step" and value.
inline std::vector<std::pair<std::string, double>> scalar_values_in(const io::FileSystem& files,
                                                                    const io::Path& folder) {
  std::vector<std::pair<std::string, double>> found;
  for (const io::Path& path : summary::event_files(files, folder)) {
    summary::EventFileReader reader(files, path);
    while (const auto event = reader.next()) {
      const auto* summary = std::get_if<summary::Summary>(&event->content);
      if (summary == nullptr) continue;
      for (const summary::TaggedValue& each : summary->values) {
        const auto* scalar = std::get_if<summary::Scalar>(&each.value);
        found.emplace_back(base::str_cat(each.tag, "@", event->step), scalar ? scalar->value : 0.0);
      }
    }
  }
  return found;
}

/// For tests: the same, without the values.
inline std::vector<std::string> scalars_in(const io::FileSystem& files, const io::Path& folder) {
  std::vector<std::string> found;
  for (const auto& [name, value] : scalar_values_in(files, folder)) found.push_back(name);
  return found;
}

}  // namespace brigade::train
