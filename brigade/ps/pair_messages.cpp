#include "brigade/ps/pair_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

using coordination::PairRole;
using coordination::PairStatus;

[[noreturn]] void refuse_pair_message(std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument,
              "A message between the processes of a parameter server is damaged: ", why);
}

template <class Read>
auto reading_pair_message(const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse_pair_message(base::without_stack_trace(error.what()));
  }
}

std::int64_t number_at(const io::StateTree& tree, std::string_view key) {
  const std::int64_t number = tree.as_int64(key);
  if (number < 0) refuse_pair_message(base::str_cat(key, " is ", number, "."));
  return number;
}

int small_number_at(const io::StateTree& tree, std::string_view key) {
  const std::int64_t number = number_at(tree, key);
  if (number > std::numeric_limits<int>::max())
    refuse_pair_message(base::str_cat(key, " is ", number, "."));
  return static_cast<int>(number);
}

/// The bytes as a tensor. Shares them if they are in one piece.
at::Tensor tensor_of_record(const io::SharedBytes& record) {
  if (record.bytes.empty()) return at::empty({0}, at::kByte);
  return at::from_blob(
      const_cast<char*>(record.bytes.data()), {static_cast<std::int64_t>(record.bytes.size())},
      [owner = record.owner](void*) {}, at::kByte);
}

io::SharedBytes bytes_of_tensor(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kByte || tensor.dim() != 1)
    refuse_pair_message("a record is no row of bytes.");
  const auto owner = std::make_shared<const at::Tensor>(tensor.contiguous());
  return {.bytes = {static_cast<const char*>(owner->const_data_ptr()), owner->nbytes()},
          .owner = owner};
}

}  // namespace

io::StateTree to_state(const PairStatus& status) {
  io::StateTree tree;
  tree["life"] = status.life;
  tree["role"] = static_cast<int>(status.role);
  tree["epoch"] = status.epoch;
  tree["is_restored"] = status.is_restored;
  tree["candidacy"] = status.candidacy;
  return tree;
}

PairStatus pair_status_of(const io::StateTree& state) {
  return reading_pair_message([&] {
    const int role = small_number_at(state, "role");
    if (role > static_cast<int>(PairRole::kActing))
      refuse_pair_message(base::str_cat("role is ", role, "."));
    return PairStatus{.life = state.as_string("life"),
                      .role = static_cast<PairRole>(role),
                      .epoch = number_at(state, "epoch"),
                      .is_restored = state.as_bool("is_restored"),
                      .candidacy = number_at(state, "candidacy")};
  });
}

io::StateTree to_state(const RoleReply& reply) {
  io::StateTree tree;
  tree["status"] = to_state(reply.status);
  tree["follow_token"] = base::to_hex(std::as_bytes(std::span(reply.follow_token)));
  return tree;
}

RoleReply role_reply_of(const io::StateTree& state) {
  return reading_pair_message([&] {
    return RoleReply{.status = pair_status_of(state.at("status")),
                     .follow_token = token_of_hex(state.as_string("follow_token"))};
  });
}

io::StateTree to_state(const Vote& vote) {
  io::StateTree tree;
  tree["voter"] = cluster::to_string(vote.voter);
  tree["epoch"] = vote.epoch;
  tree["life"] = vote.life;
  tree["candidacy"] = vote.candidacy;
  return tree;
}

Vote vote_of(const io::StateTree& state) {
  return reading_pair_message([&] {
    return Vote{.voter = cluster::parse_task(state.as_string("voter")),
                .epoch = number_at(state, "epoch"),
                .life = state.as_string("life"),
                .candidacy = number_at(state, "candidacy")};
  });
}

UpdateRecord to_message(const FollowRequest& request) {
  UpdateRecord message;
  message.header["from"] = to_state(request.from);
  message.header["number"] = request.number;
  message.header["source_life"] = request.source.life;
  message.header["source_epoch"] = request.source.epoch;
  message.header["applied"] = request.applied;
  if (request.part) message.header["part"] = *request.part;
  message.header["wait"] = static_cast<std::int64_t>(request.wait.count());
  message.header["knows_end"] = request.knows_end;
  return message;
}

FollowRequest follow_request_of(UpdateRecord message) {
  return reading_pair_message([&] {
    constexpr std::int64_t kLongestWait = 60'000;
    const io::StateTree& header = message.header;
    FollowRequest request{
        .from = pair_status_of(header.at("from")),
        .number = number_at(header, "number"),
        .source = {.life = header.as_string("source_life"),
                   .epoch = number_at(header, "source_epoch")},
        .applied = number_at(header, "applied"),
        .wait = std::chrono::milliseconds(std::min(number_at(header, "wait"), kLongestWait)),
        .knows_end = header.as_bool("knows_end")};
    if (header.has("part")) request.part = small_number_at(header, "part");
    if (!message.tensors.empty()) refuse_pair_message("a request has tensors.");
    return request;
  });
}

UpdateRecord to_message(const FollowReply& reply) {
  UpdateRecord message;
  message.header["status"] = to_state(reply.status);
  message.header["is_finished"] = reply.is_finished;
  message.header["is_complete"] = reply.is_complete;
  message.header["must_fill"] = reply.must_fill;
  if (reply.part) {
    io::StateTree& part = message.header["part"];
    part["covered"] = reply.part->covered;
    part["parts"] = reply.part->parts;
    part["state"] = reply.part->state;
    message.tensors = reply.part->tensors;
  } else {
    for (const io::SharedBytes& each : reply.records)
      message.tensors.push_back({"", tensor_of_record(each)});
  }
  return message;
}

FollowReply follow_reply_of(UpdateRecord message) {
  return reading_pair_message([&] {
    const io::StateTree& header = message.header;
    FollowReply reply{.status = pair_status_of(header.at("status")),
                      .is_finished = header.as_bool("is_finished"),
                      .is_complete = header.as_bool("is_complete"),
                      .must_fill = header.as_bool("must_fill")};
    if (header.has("part")) {
      const io::StateTree& part = header.at("part");
      reply.part = StatePart{.covered = number_at(part, "covered"),
                             .parts = small_number_at(part, "parts"),
                             .state = part.at("state"),
                             .tensors = std::move(message.tensors)};
    } else {
      for (const checkpoint::NamedTensor& each : message.tensors)
        reply.records.push_back(bytes_of_tensor(each.tensor));
    }
    return reply;
  });
}

}  // namespace brigade::ps
