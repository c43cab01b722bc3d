#pragma once

#include "apps/brigade/data_flags.h"
#include "brigade/distribute/input/batch_ops.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"

namespace brigade::command {

/// What makes floats of a replica's batch of images on its device; null: the host has done it.
using ReplicaNormalizer = distribute::ReplicaMapFunction<input::LabeledBatch>;

/// Whether the images of an evaluation go to the strategy's devices as bytes, by --normalize.
/// Throws UsageError.
input::ImageOutput image_output(const DataFlags& data, const distribute::Strategy& strategy);
/// The same of a training, whose augmentation may need floats.
input::ImageOutput image_output(const DataFlags& data, const PipelineFlags& pipeline,
                                const distribute::Strategy& strategy);

/// For `DistributedDataset::map_on_replica`; null if `input.output` is kNormalized.
ReplicaNormalizer make_normalizer(const DataFlags& data, const ImageInput& input);

}  // namespace brigade::command
