#pragma once

#include <brigade/brigade.h>

#include <string>

/// What the guide shows, compiled and run. `tools/doc_snippets.py` copies the marked parts into
/// docs/guide.
namespace snippets {

namespace bg = brigade;

void several_inputs(bg::Strategy& strategy);
void two_optimizers(bg::Strategy& strategy);
void language_model(bg::Strategy& strategy);
void fine_tuning(bg::Strategy& strategy, const std::string& folder);
void custom_loop(bg::Strategy& strategy);
void from_libtorch(bg::Strategy& strategy, const std::string& folder);
void checkpoints(const std::string& folder);
void tensorboard(bg::Strategy& strategy, const std::string& folder);

}  // namespace snippets
