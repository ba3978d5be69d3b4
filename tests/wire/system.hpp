// An actor system that knows the library's message types, for tests that serialize or send.
#pragma once

#include <gpuactors/wire/links.hpp>
#include <gpuactors/wire/messages.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace gpuactors::test {

/// One system with its configuration; waits for its actors when it ends.
class System {
public:
  using Configure = std::function<void(caf::actor_system_config&)>;

  /// @param links how it talks to others, if it does.
  /// @param configure what else it is.
  explicit System(const std::optional<LinkOptions>& links = {}, const Configure& configure = {});
  ~System();

  [[nodiscard]] caf::actor_system& get() noexcept {
    return *system_;
  }

private:
  class Config;
  std::unique_ptr<Config> config_;
  std::unique_ptr<caf::actor_system> system_;
};

} // namespace gpuactors::test
