#include "brigade/ps/pair_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::ps {

void list_fields(auto& fields, MaybeConst<FollowRequest> auto& request) {
  fields("from", request.from);
  fields.count("number", request.number);
  fields("source_life", request.source.life);
  fields.count("source_epoch", request.source.epoch);
  fields.count("applied", request.applied);
  fields.count("part", request.part);
  fields("wait", request.wait);
  fields("knows_end", request.knows_end);
}

void list_fields(auto& fields, MaybeConst<StatePart> auto& part) {
  fields.count("covered", part.covered);
  fields.count("parts", part.parts);
  fields("state", part.state);
}

/// Without what the tensors of a message say.
void list_fields(auto& fields, MaybeConst<FollowReply> auto& reply) {
  fields("status", reply.status);
  fields("is_finished", reply.is_finished);
  fields("is_complete", reply.is_complete);
  fields("must_fill", reply.must_fill);
  fields("part", reply.part);
}

namespace {

/// The bytes as a tensor. Shares them if they are in one piece.
at::Tensor tensor_of_record(const io::SharedBytes& record) {
  if (record.bytes.empty()) return at::empty({0}, at::kByte);
  return at::from_blob(
      const_cast<char*>(record.bytes.data()), {static_cast<std::int64_t>(record.bytes.size())},
      [owner = record.owner](void*) {}, at::kByte);
}

io::SharedBytes bytes_of_tensor(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kByte || tensor.dim() != 1)
    refuse("a record is no row of bytes.");
  const auto owner = std::make_shared<const at::Tensor>(tensor.contiguous());
  return {.bytes = {static_cast<const char*>(owner->const_data_ptr()), owner->nbytes()},
          .owner = owner};
}

}  // namespace

UpdateRecord to_message(const FollowRequest& request) {
  return {.header = to_state(request), .tensors = {}};
}

FollowRequest follow_request_of(UpdateRecord message) {
  return reading([&] {
    constexpr std::chrono::milliseconds kLongestWait{60'000};
    auto request = part_of<FollowRequest>(message.header);
    request.wait = std::min(request.wait, kLongestWait);
    check_argument(message.tensors.empty(), "a request has tensors.");
    return request;
  });
}

UpdateRecord to_message(const FollowReply& reply) {
  UpdateRecord message{.header = to_state(reply), .tensors = {}};
  if (reply.part) {
    message.tensors = reply.part->tensors;
  } else {
    for (const io::SharedBytes& each : reply.records)
      message.tensors.push_back({"", tensor_of_record(each)});
  }
  return message;
}

FollowReply follow_reply_of(UpdateRecord message) {
  return reading([&] {
    auto reply = part_of<FollowReply>(message.header);
    if (reply.part) {
      reply.part->tensors = std::move(message.tensors);
    } else {
      for (const checkpoint::NamedTensor& each : message.tensors)
        reply.records.push_back(bytes_of_tensor(each.tensor));
    }
    return reply;
  });
}

}  // namespace brigade::ps
