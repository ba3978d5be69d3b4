#include "system.hpp"

namespace gpuactors::test {

class System::Config : public caf::actor_system_config {
public:
  Config(const std::optional<LinkOptions>& links, const Configure& configure) {
    caf_version::add_types<caf::id_block::gpuactors>(*this);
    caf_version::set_scheduler(*this, 1);
    if (links)
      configure_links(*this, *links);
    if (configure)
      configure(*this);
  }
};

System::System(const std::optional<LinkOptions>& links, const Configure& configure) {
  static const bool known = [] {
    caf_version::init_types<caf::id_block::gpuactors>();
    return true;
  }();
  static_cast<void>(known);
  config_ = std::make_unique<Config>(links, configure);
  system_ = std::make_unique<caf::actor_system>(*config_);
}

System::~System() = default;

} // namespace gpuactors::test
