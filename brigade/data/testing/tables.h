#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

/// Tables of the results of tf.data, written by the programs in tools/tf_data. For tests only.
namespace brigade::data::testing {

/// One file of brigade/data/testing/tables: cases by name, each with the elements and the
/// cardinality of the dataset in tf.data.
///
///   const Table table("windows");
///   expect_contract(range(10).window(3), table.elements<Numbers>("range(10).window(3)"));
///
/// Thread-safety: immutable.
class Table {
 public:
  explicit Table(std::string_view name) : name_(name) {
    std::ifstream file(base::str_cat(BRIGADE_DATA_TABLES, "/", name, ".json"));
    json_ = nlohmann::json::parse(file, nullptr, false);
    check_argument(json_.is_object(), "There is no table ", name_);
  }
  template <class T>
  std::vector<T> elements(const std::string& name) const {
    return at(name).at("elements").get<std::vector<T>>();
  }
  std::int64_t cardinality(const std::string& name) const {
    return at(name).at("cardinality").get<std::int64_t>();
  }
  /// All values recorded for the case.
  const nlohmann::json& at(const std::string& name) const {
    const auto found = json_.find(name);
    check_argument(found != json_.end(), "The table ", name_, " has no case \"", name, "\"");
    return *found;
  }

 private:
  std::string name_;
  nlohmann::json json_;
};

/// The bytes of a string of hexadecimal digits; spaces are ignored.
inline std::string bytes_of_hex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits += c;
  }
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace brigade::data::testing
