#include "brigade/concurrency/ticket_mutex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace brigade::concurrency {
namespace {

TEST(TicketMutex, ThreadsEnterInTheOrderOfTheirTickets) {
  TicketMutex mutex;
  std::vector<std::uint64_t> tickets;
  for (int i = 0; i < 16; ++i) tickets.push_back(mutex.draw());
  std::vector<std::uint64_t> entered;
  std::vector<std::thread> threads;
  for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket)  // the last one first
    threads.emplace_back([&, own = *ticket] {
      const TicketMutex::Hold hold(mutex, own);
      entered.push_back(own);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entered, tickets);
}

TEST(TicketMutex, TicketsOfTwoMutexesDrawnTogetherGiveOneOrder) {
  TicketMutex first, second;
  Mutex order;
  std::vector<int> in_first, in_second;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        std::uint64_t first_ticket = 0, second_ticket = 0;
        {
          const MutexLock lock(order);
          first_ticket = first.draw();
          second_ticket = second.draw();
        }
        {
          const TicketMutex::Hold hold(first, first_ticket);
          in_first.push_back(thread);
        }
        const TicketMutex::Hold hold(second, second_ticket);
        in_second.push_back(thread);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(in_first.size(), 400);
  EXPECT_EQ(in_first, in_second);
}

}  // namespace
}  // namespace brigade::concurrency
