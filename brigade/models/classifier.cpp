#include "brigade/models/classifier.h"

namespace brigade::models {

Classifier::~Classifier() = default;

}  // namespace brigade::models
