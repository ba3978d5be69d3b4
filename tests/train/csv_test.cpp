// CSV files: what is read, and that every error names its line.
#include "lessons.hpp"

#include <support/temporary_folder.hpp>

#include <zlib.h>

#include <fstream>

namespace train::test {

using gpuactors::Errc;
using gpuactors::test::TemporaryFolder;

namespace {

class CsvFile {
public:
  gpuactors::Result<Table> read(const std::string& text, bool header = false) {
    std::ofstream{path_, std::ios::binary} << text;
    return read_csv(path_, header);
  }

  /// The error of a text, which must begin with the name of the file.
  std::string refusal(const std::string& text, bool header = false) {
    const auto table = read(text, header);
    REQUIRE_FALSE(table);
    CHECK(table.error().code() == Errc::invalid_argument);
    REQUIRE(table.error().message().find(path_.string()) == 0);
    return table.error().message().substr(path_.string().size());
  }

  [[nodiscard]] const std::filesystem::path& path() const {
    return path_;
  }

private:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "data.csv";
};

} // namespace

TEST_CASE("rows of numbers and labels are read, gzipped or not", "[train]") {
  CsvFile file;
  const std::string text = "1,2.5,0\r\n-3e1, 4 ,2\n0,0,1\n\n";
  auto table = must(file.read(text));
  CHECK(table.rows == 3);
  CHECK(table.inputs == 2);
  CHECK(table.classes == 3);
  CHECK(table.features == std::vector<float>{1, 2.5F, -30, 4, 0, 0});
  CHECK(table.labels == std::vector<std::int32_t>{0, 2, 1});
  CHECK(must(file.read("a,b,label\n1,2,0", true)).rows == 1);

  auto* out = gzopen(file.path().c_str(), "wb");
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  CHECK(must(read_csv(file.path())).features == table.features);
  const auto bytes = read_text(file.path());
  CHECK(file.refusal(bytes.substr(0, bytes.size() - 9)).find(" cannot be read beyond line") == 0);
}

TEST_CASE("what is wrong in a file is said with its line", "[train]") {
  CsvFile file;
  CHECK(file.refusal("1,2,0\n1,0\n") == ", line 2 has 2 columns; the rows before it have 3");
  CHECK(file.refusal("1,2,0\n1,2,3,0\n") == ", line 2 has 4 columns; the rows before it have 3");
  CHECK(file.refusal("1,2,0\n1,x2,0\n") == ", line 2 has \"x2\" in column 2; a number is due");
  CHECK(file.refusal("1,2,0\n1,2y,0\n") == ", line 2 has \"2y\" in column 2; a number is due");
  CHECK(file.refusal("a,b\n")
        == ", line 1 has \"a\" in column 1; a number is due (--header passes over a line of names)");
  CHECK(file.refusal("1,2,0\n1,,0\n") == ", line 2 has nothing in column 2; a number is due");
  CHECK(file.refusal("1,2,0\n1,2,\n") == ", line 2 has nothing in column 3; a number is due");
  CHECK(file.refusal("1,2,0\nnan,2,0\n") == ", line 2 has nan in column 1; a finite number of single precision is due");
  CHECK(file.refusal("1,2,0\n1,-inf,0\n")
        == ", line 2 has -inf in column 2; a finite number of single precision is due");
  CHECK(file.refusal("1e300,2,0\n") == ", line 1 has 1e300 in column 1; a finite number of single precision is due");
  CHECK(file.refusal("1,2,0\n\n1,2,0\n") == ", line 2 is empty");
  CHECK(file.refusal("5\n") == ", line 1 has one column; at least one number and a label are due");
  CHECK(file.refusal("1,2.5\n")
        == ", line 1 has the label 2.5 in its last column; a whole number from 0 to 65535 is due");
  CHECK(file.refusal("1,-1\n")
        == ", line 1 has the label -1 in its last column; a whole number from 0 to 65535 is due");
  CHECK(file.refusal(std::string("1,0\n1,\0002\n", 9)) == ", line 2 has a byte 0 in it: this is no text");
  // Behind the last line, too, where a disk was full or a copy was cut off.
  CHECK(file.refusal(std::string("1,0\n10,1\n\0\0\0\0", 13)) == ", line 3 has a byte 0 in it: this is no text");
  CHECK(file.refusal(std::string("1,0\n10,1\0garbage", 16)) == ", line 2 has a byte 0 in it: this is no text");
  CHECK(file.refusal(std::string("1,0\n10,1\0", 9)) == ", line 2 has a byte 0 in it: this is no text");
  CHECK(file.refusal("") == " has no row of numbers: it ends before line 1");
  CHECK(file.refusal("\n\n") == " has no row of numbers: it ends before line 1");
  CHECK(file.refusal("a,b\n", true) == " has no row of numbers: it ends before line 2");
  CHECK(says(read_csv(file.path().parent_path()).error(), "is a folder"));
  const auto none = read_csv(file.path().string() + ".none");
  REQUIRE_FALSE(none);
  CHECK(none.error().code() == Errc::not_found);
}

} // namespace train::test
