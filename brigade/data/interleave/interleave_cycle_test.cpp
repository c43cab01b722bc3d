#include "brigade/data/interleave/interleave_cycle.h"

#include <gtest/gtest.h>

#include <memory>

#include "brigade/base/error.h"

namespace brigade::data::internal {
namespace {

using Cycle = InterleaveCycle<int, int>;
using Queue = Cycle::Queue;
using Found = Cycle::Found;

constexpr std::uint64_t kCycle = 2;

Cycle cycle_of(std::uint64_t block_length = 1) {
  const auto snapshot = std::make_shared<const InputSnapshot>();
  return Cycle({.name = "test", .cycle_length = kCycle, .block_length = block_length},
               {snapshot, 0});
}
/// A cycle to whose input elements 0, 1, ... were added.
Cycle with_elements(int count, std::uint64_t block_length = 1) {
  Cycle cycle = cycle_of(block_length);
  const auto snapshot = std::make_shared<const InputSnapshot>();
  for (int i = 0; i < count; ++i) {
    cycle.add({{snapshot, static_cast<std::uint64_t>(i)}, {i, nullptr}});
  }
  return cycle;
}
void end_input(Cycle& cycle) {
  cycle.add({{}, {std::nullopt, nullptr}});
}

Queue::Chunk chunk(const std::vector<int>& elements, Queue::End end = Queue::End::kNotYet) {
  Queue::Chunk made{.end = end};
  for (const int element : elements) made.results.push_back({element, nullptr});
  return made;
}
Queue::Chunk not_created() {
  Queue::Chunk made{.end = Queue::End::kNotCreated};
  made.results.push_back({std::nullopt, std::make_exception_ptr(1)});
  return made;
}
/// A worker reads the chunk `made` for the queue of `element`.
void read(Cycle& cycle, int element, Queue::Chunk made) {
  Queue* queue = nullptr;
  for (std::uint64_t slot = 0; slot < kCycle && queue == nullptr; ++slot) {
    Queue* const here = cycle.find_in_slots(Cycle::kReadyChunks, slot);
    if (here != nullptr && here->element.element == element) queue = here;
  }
  if (queue == nullptr) queue = cycle.find_upcoming();
  ASSERT_TRUE(queue != nullptr && queue->element.element == element)
      << "no queue to read for element " << element;
  queue->is_busy = true;
  cycle.publish(*queue, std::move(made));
}
std::optional<int> next(Cycle& cycle, Order order = Order::kInOrder) {
  if (!cycle.has_result() && cycle.find(order) != Found::kResult) return std::nullopt;
  return std::move(cycle.take()).take();
}

TEST(InterleaveCycle, QueuesAreConsumedRoundRobinHoweverTheyWereFilled) {
  Cycle cycle = with_elements(2);
  EXPECT_EQ(cycle.find(Order::kInOrder), Found::kNothingYet) << "but queue 0 is in its slot";
  read(cycle, 0, chunk({0}));
  EXPECT_EQ(next(cycle), 0);
  EXPECT_EQ(next(cycle), std::nullopt);
  read(cycle, 0, chunk({1}));
  EXPECT_EQ(next(cycle), std::nullopt) << "the current slot is that of queue 1";
  read(cycle, 1, chunk({10, 11}));
  EXPECT_EQ(next(cycle), 10);
  EXPECT_EQ(next(cycle), 1);
  EXPECT_EQ(next(cycle), 11);
}

TEST(InterleaveCycle, EachSlotGivesABlock) {
  Cycle cycle = with_elements(2, 2);
  cycle.find(Order::kInOrder);
  read(cycle, 0, chunk({0, 1, 2}));
  EXPECT_EQ(next(cycle), 0);
  EXPECT_EQ(cycle.position().block_index, 1U);
  EXPECT_EQ(next(cycle), 1);
  EXPECT_EQ(cycle.position().cycle_index, 1U);
  EXPECT_EQ(cycle.position().block_index, 0U);
  EXPECT_EQ(next(cycle), std::nullopt);
}

TEST(InterleaveCycle, AQueueThatEndsFreesItsSlotAndTheNextSlotFollows) {
  Cycle cycle = with_elements(3);
  cycle.find(Order::kInOrder);
  read(cycle, 0, chunk({0}, Queue::End::kExhausted));
  EXPECT_EQ(next(cycle), 0);
  cycle.find(Order::kInOrder);
  read(cycle, 1, chunk({10, 11}));
  EXPECT_EQ(next(cycle), 10);
  EXPECT_EQ(next(cycle), 11) << "slot 0 is empty, and its next queue starts in its next round";
  EXPECT_EQ(next(cycle), std::nullopt);
  read(cycle, 2, chunk({20}));
  EXPECT_EQ(next(cycle), 20);
}

TEST(InterleaveCycle, ADatasetThatCouldNotBeCreatedDoesNotEndABlock) {
  Cycle cycle = with_elements(3);
  cycle.find(Order::kInOrder);
  read(cycle, 0, not_created());
  ASSERT_EQ(cycle.find(Order::kInOrder), Found::kResult);
  EXPECT_TRUE(cycle.current_queue()->is_failed);
  EXPECT_TRUE(cycle.take().error);
  cycle.close_failed();
  EXPECT_EQ(cycle.position().cycle_index, 0U);
  cycle.find(Order::kInOrder);
  read(cycle, 1, chunk({10}));
  EXPECT_EQ(next(cycle), 10) << "the next takes the slot immediately";
}

TEST(InterleaveCycle, EndsWhenAllQueuesAndTheInputDo) {
  Cycle cycle = with_elements(1);
  cycle.find(Order::kInOrder);
  read(cycle, 0, chunk({}, Queue::End::kExhausted));
  EXPECT_EQ(cycle.find(Order::kInOrder), Found::kNothingYet) << "more may come";
  end_input(cycle);
  EXPECT_FALSE(cycle.needs_queue(8));
  EXPECT_EQ(cycle.find(Order::kInOrder), Found::kEnd);
  EXPECT_EQ(cycle.find(Order::kRelaxed), Found::kEnd);
}

TEST(InterleaveCycle, RelaxedTakesWhatIsReadyAndSkipsNoQueue) {
  Cycle cycle = with_elements(3);
  EXPECT_EQ(cycle.find(Order::kRelaxed), Found::kNothingYet);
  read(cycle, 1, chunk({10, 11}));
  EXPECT_EQ(next(cycle, Order::kRelaxed), 10);
  read(cycle, 0, chunk({0}));
  EXPECT_EQ(next(cycle, Order::kRelaxed), 0);
  EXPECT_EQ(next(cycle, Order::kRelaxed), 11);
  EXPECT_EQ(next(cycle, Order::kRelaxed), std::nullopt);
  read(cycle, 1, chunk({}, Queue::End::kExhausted));
  EXPECT_EQ(next(cycle, Order::kRelaxed), std::nullopt);
  read(cycle, 2, chunk({20}));
  EXPECT_EQ(next(cycle, Order::kRelaxed), 20) << "in the slot that queue 1 left";
}

TEST(InterleaveCycle, RelaxedStartsABlockInTheSlotItSelects) {
  Cycle cycle = with_elements(2, 2);
  cycle.find(Order::kRelaxed);
  read(cycle, 0, chunk({0}));
  read(cycle, 1, chunk({10, 11}));
  EXPECT_EQ(next(cycle, Order::kRelaxed), 0);
  EXPECT_EQ(next(cycle, Order::kRelaxed), 10);
  EXPECT_EQ(cycle.position().cycle_index, 1U);
  EXPECT_EQ(cycle.position().block_index, 1U);
}

TEST(InterleaveCycle, UpcomingQueuesAreBoundedByTheThreadsAndTheCycle) {
  Cycle cycle = with_elements(3);
  EXPECT_FALSE(cycle.needs_queue(1));
  EXPECT_TRUE(cycle.needs_queue(2));
  cycle.find(Order::kRelaxed);  // two of them go into slots
  EXPECT_FALSE(cycle.needs_queue(1));
  cycle.add({{std::make_shared<const InputSnapshot>(), 3}, {3, nullptr}});
  EXPECT_FALSE(cycle.needs_queue(100));
}

TEST(InterleaveCycle, PrefetchingIsBoundedAndTakingFreesSpace) {
  Cycle cycle = with_elements(2);
  cycle.find(Order::kRelaxed);
  EXPECT_EQ(cycle.take_freed(), 2U) << "two more queues can be read";
  for (const int element : {0, 0, 1, 1}) read(cycle, element, chunk({element}));
  EXPECT_EQ(cycle.num_ready(), 4U);
  EXPECT_EQ(cycle.find_in_slots(Cycle::kReadyChunks, 0), nullptr);
  EXPECT_TRUE(cycle.has_full_queue());
  EXPECT_EQ(next(cycle), 0);
  EXPECT_EQ(cycle.num_ready(), 3U);
  EXPECT_EQ(cycle.take_freed(), 1U);
  EXPECT_NE(cycle.find_in_slots(Cycle::kReadyChunks, 0), nullptr);
  cycle.clear();
  EXPECT_EQ(cycle.num_ready(), 0U);
  EXPECT_FALSE(cycle.has_full_queue());
}

TEST(InterleaveCycle, QueuesThatAreBeingReadAreNotFull) {
  Cycle cycle = with_elements(1);
  cycle.find(Order::kInOrder);
  Queue* const queue = cycle.find_in_slots(1, 0);
  ASSERT_NE(queue, nullptr);
  queue->is_busy = true;
  EXPECT_FALSE(cycle.has_full_queue());
  cycle.publish(*queue, chunk({0}, Queue::End::kExhausted));
  EXPECT_FALSE(cycle.has_full_queue()) << "its dataset has ended";
}

TEST(InterleaveCycle, TheNextQueueToReadIsTheUrgentOne) {
  Cycle cycle = with_elements(2);
  cycle.find(Order::kRelaxed);
  EXPECT_EQ(cycle.find_in_slots(1, 0)->element.element, 0);
  EXPECT_EQ(cycle.find_in_slots(1, 1)->element.element, 1);
  read(cycle, 1, chunk({10}));
  EXPECT_EQ(cycle.find_in_slots(1, 1)->element.element, 0) << "queues with nothing ready go first";
  EXPECT_EQ(cycle.find_in_slots(2, 1)->element.element, 1);
}

TEST(InterleaveCycle, ThePositionIsAfterTheTakenResults) {
  Cycle cycle = with_elements(2);
  cycle.find(Order::kInOrder);
  read(cycle, 0, chunk({0, 1}));
  EXPECT_EQ(next(cycle), 0);
  InterleavePosition position = cycle.position();
  EXPECT_EQ(position.input.index, 1U) << "queue 1 has not entered a slot yet";
  ASSERT_TRUE(position.slots[0].has_value());
  EXPECT_EQ(position.slots[0]->delivered, 1U);
  EXPECT_FALSE(position.slots[1].has_value());
  Queue::Chunk with_snapshot = chunk({2});
  with_snapshot.snapshot.emplace();
  read(cycle, 0, std::move(with_snapshot));
  EXPECT_EQ(cycle.position().slots[0]->delivered, 1U) << "the chunk is not taken yet";
  EXPECT_FALSE(cycle.position().slots[0]->state.has_value());
  cycle.find(Order::kInOrder);
  read(cycle, 1, chunk({10, 11, 12}));
  for (const int expected : {10, 1, 11, 2}) EXPECT_EQ(next(cycle), expected);
  position = cycle.position();
  EXPECT_EQ(position.input.index, 2U);
  EXPECT_EQ(position.slots[0]->delivered, 1U) << "counted from the snapshot";
  EXPECT_TRUE(position.slots[0]->state.has_value());
  EXPECT_EQ(position.slots[1]->delivered, 2U);
}

}  // namespace
}  // namespace brigade::data::internal
