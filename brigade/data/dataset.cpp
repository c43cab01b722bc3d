#include "brigade/data/dataset.h"

#include "brigade/base/error.h"

namespace brigade::data::internal {

void throw_no_element(const std::string& dataset) {
  refuse("get_single_element: ", dataset, " has no element; it must have one");
}

void throw_more_than_one_element(const std::string& dataset) {
  refuse("get_single_element: ", dataset, " has more than one element; take(1) gives the first");
}

}  // namespace brigade::data::internal
