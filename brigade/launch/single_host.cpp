#include "brigade/launch/hosts.h"
#include "brigade/launch/mailbox.h"

namespace brigade::launch {

namespace {

class SingleHost final : public Hosts {
 public:
  explicit SingleHost(int processes) : processes_({processes}) {}

  int self() const override { return 0; }
  int rendezvous_round() const override { return 0; }
  const std::vector<int>& processes() const override { return processes_; }
  std::string name(int) const override { return "this host"; }
  void send(const Message& message) override { messages_.put(message); }
  int descriptor() const override { return messages_.descriptor(); }
  std::vector<Message> take() override { return messages_.take(); }
  std::optional<GoneHost> gone() const override { return std::nullopt; }
  void leave() noexcept override {}

 private:
  const std::vector<int> processes_;
  Mailbox<Message> messages_;
};

}  // namespace

std::unique_ptr<Hosts> make_single_host(int processes) {
  return std::make_unique<SingleHost>(processes);
}

}  // namespace brigade::launch
