// The processes below one, by what a folder such as /proc says of them.
#include <gpuactors/cluster/detail/process_tree.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// A folder such as /proc, with processes that the test makes up.
class Proc {
public:
  void add(pid_t pid, std::string_view name, pid_t parent) const {
    std::filesystem::create_directories(of(pid));
    std::ofstream{of(pid) / "stat"} << fmt::format("{} ({}) S {} 1 1 0\n", pid, name, parent);
  }

  /// Of one that ends between the moments when its file is opened and read: a folder, which opens and cannot be read.
  void add_ending(pid_t pid) const {
    std::filesystem::create_directories(of(pid) / "stat");
  }

  [[nodiscard]] const std::filesystem::path& path() const {
    return folder_.path();
  }

private:
  [[nodiscard]] std::filesystem::path of(pid_t pid) const {
    return folder_.path() / std::to_string(pid);
  }

  TemporaryFolder folder_;
};

} // namespace

TEST_CASE("a tree has a process and all below it, whatever their names, and no others", "[cluster]") {
  const Proc proc;
  proc.add(100, "root", 1);
  proc.add(101, "a (b) c", 100);
  proc.add(102, ") R 7", 101);
  proc.add(103, "another", 1);
  std::filesystem::create_directories(proc.path() / "sys");
  CHECK(detail::process_tree(100, proc.path()) == std::vector<pid_t>{100, 101, 102});
  CHECK(detail::process_tree(103, proc.path()) == std::vector<pid_t>{103});
}

TEST_CASE("a process that ends while a tree is looked for is none of it, and does no harm", "[cluster]") {
  const Proc proc;
  proc.add(100, "root", 1);
  proc.add_ending(101);
  proc.add(102, "child", 100);
  CHECK(detail::process_tree(100, proc.path()) == std::vector<pid_t>{100, 102});
  CHECK(detail::process_tree(100, proc.path() / "nowhere") == std::vector<pid_t>{100});
}
