// Files that are read to their end.
#include <gpuactors/base/files.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <fcntl.h>

#include <fstream>
#include <string>

using namespace gpuactors;
using namespace gpuactors::test;

TEST_CASE("a file is read to its end, whatever its length", "[base]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  for (const std::size_t length : {0U, 1U, 4095U, 4096U, 4097U, 100'000U}) {
    const std::string text(length, 'a');
    std::ofstream{path} << text;
    const auto read = detail::read_to_end(path);
    REQUIRE(read);
    CHECK(*read == text);
  }
  const detail::Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  CHECK(detail::read_to_end(file.get(), 10) == std::string(10, 'a'));
  CHECK(detail::read_to_end(file.get(), 1'000'000) == std::string(99'990, 'a'));
}

TEST_CASE("a file of /proc, which does not say how long it is, is read to its end", "[base]") {
  const auto text = detail::read_to_end("/proc/self/stat");
  REQUIRE(text);
  CHECK(text->ends_with('\n'));
  CHECK(text->starts_with(std::to_string(::getpid()) + " ("));
}

TEST_CASE("what is no file, or cannot be read once it is open, is an error that says why", "[base]") {
  const TemporaryFolder folder;
  const auto missing = detail::read_to_end(folder.path() / "missing");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code() == Errc::not_found);
  // A folder can be opened like a file of a process that then ends; it is the read that fails.
  const auto opened = detail::read_to_end(folder.path());
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code() == Errc::invalid_argument);
  CHECK(opened.error().message().find("cannot be read: Is a directory") != std::string::npos);
}
