#include "brigade/variables/name_scope.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {

namespace {

/// TensorFlow's rule: at the root the first character is a letter, digit or point.
bool is_scope_name(const std::string& name, bool is_root) {
  constexpr std::string_view kOthers = "_.\\/>-";
  const auto is_allowed = [&](unsigned char c) {
    return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != kOthers.npos;
  };
  if (!std::all_of(name.begin(), name.end(), is_allowed)) return false;
  return !is_root || std::isalnum(static_cast<unsigned char>(name.front())) != 0 ||
         name.front() == '.';
}

}  // namespace

NameScope::NameScope(Graph& graph, const std::string& name)
    : graph_(graph), outer_(graph.name_scope_) {
  check_argument(name.empty() || is_scope_name(name, outer_.empty()),
                 base::str_cat("'", name,
                               "' is not a valid name scope: use letters, digits and any of _ . / "
                               "-, and begin one at the root with a letter or digit."));
  if (!name.empty()) name_ = name.back() == '/' ? name : graph.unique_name(name) + "/";
  graph_.name_scope_ = name_;
}

NameScope::~NameScope() {
  graph_.name_scope_ = outer_;
}

NameScope name_scope(const std::string& name) {
  return NameScope(require_graph("name_scope"), name);
}

}  // namespace brigade::variables
