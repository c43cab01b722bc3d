// The link of a single process: every collective is complete when it returns.
#include <cstdlib>
#include <new>

#include "brigade/comm/process_link.h"

namespace brigade::comm {

namespace {

class SingleLink final : public ProcessLink {
 public:
  explicit SingleLink(Transport transport) : transport_(transport) {}

  Transport transport() const override { return transport_; }
  std::int64_t bytes_sent() const override { return 0; }
  std::span<const CallHeader> exchange(const CallHeader& mine) override {
    header_ = mine;
    return {&header_, 1};
  }
  std::vector<std::string> exchange_texts(const std::string& mine) override { return {mine}; }
  void reduce(std::span<const FlatTensor>, ReduceOp) override {}
  void broadcast(std::span<const FlatTensor>, int) override {}
  std::vector<at::Tensor> all_gather(const at::Tensor& mine, std::span<const CallHeader>) override {
    return {mine.clone()};
  }
  LinkBuffer make_buffer(std::int64_t bytes) override { return make_private_buffer(bytes); }
  void give_up(const Error&) noexcept override {}

 private:
  const Transport transport_;
  CallHeader header_;
};

}  // namespace

LinkBuffer make_private_buffer(std::int64_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kAlignment - 1) & ~(kAlignment - 1);
  std::shared_ptr<void> memory(std::aligned_alloc(kAlignment, size), std::free);
  if (!memory) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(memory.get());
  std::fill_n(begin, size, std::byte{0});
  return {.memory = std::move(memory), .own = begin};
}

std::unique_ptr<ProcessLink> make_single_link(Transport transport) {
  return std::make_unique<SingleLink>(transport);
}

}  // namespace brigade::comm
