// The reader of safetensors against damage: each damage gives one Error that names the file, and the tensor if one is
// wrong.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/worker/model/model_directory.h"
#include "worker/model/loading/safetensors.h"

namespace roost::worker {
namespace {

using testing::HasSubstr;

const std::string kHeader = R"({"__metadata__": {"format": "pt"},)"
                            R"("a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},)"
                            R"("b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},)"
                            R"("empty": {"dtype": "I64", "shape": [0, 7], "data_offsets": [24, 24]}})";
const std::string kData = "0123456789abcdefghijklmnopqrstuv";

// The complaint about `header` before 32 bytes of data; empty when there is none.
std::string Complaint(const std::string& header) {
  const auto result = ParseSafetensorsHeader(header, kData.size(), "file");
  return result.ok() ? "" : result.error().ToString();
}

std::string OneTensor(const std::string& entry) { return R"({"t": )" + entry + "}"; }

TEST(SafetensorsFileTest, AFifoIsRefusedAtOnce) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsFile::Open(path).error().ToString(), HasSubstr("is not a regular file"));
}

TEST(SafetensorsFileTest, FindsTensorsWithTheirBytes) {
  const TemporaryDirectory directory;
  const auto file = SafetensorsFile::Open(directory.Write("x.safetensors", SafetensorsBytes(kHeader, kData))).value();
  ASSERT_EQ(file->tensors().size(), 3U);
  const TensorInfo& a = file->tensors().find("a")->second;
  const TensorInfo& b = file->tensors().find("b")->second;
  EXPECT_EQ(a.dtype, TensorDType::kF32);
  EXPECT_EQ(a.ShapeText(), "[2, 3]");
  EXPECT_EQ(b.dtype, TensorDType::kBF16);
  const auto bytes = file->Data(b);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), kData.substr(24));
  EXPECT_EQ(file->header(), kHeader);
}

TEST(SafetensorsFileTest, EveryTruncationIsAnErrorThatNamesTheFile) {
  const TemporaryDirectory directory;
  const std::string whole = SafetensorsBytes(kHeader, kData);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = SafetensorsFile::Open(directory.Write("cut.safetensors", whole.substr(0, size)));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_THAT(file.error().field, HasSubstr("cut.safetensors")) << size;
  }
}

TEST(SafetensorsFileTest, ATruncatedTensorIsNamed) {
  const TemporaryDirectory directory;
  const std::string whole = SafetensorsBytes(kHeader, kData);
  const auto file = SafetensorsFile::Open(directory.Write("x.safetensors", whole.substr(0, whole.size() - 1)));
  EXPECT_THAT(file.error().message, HasSubstr("tensor 'b': the file is truncated"));
  EXPECT_EQ(file.error().code, ErrorCode::kDataLoss);
}

TEST(SafetensorsFileTest, AHeaderThatClaimsTooMuchIsRefused) {
  const TemporaryDirectory directory;
  for (const int top : {0x01, 0x7f, 0xff}) {
    std::string bytes = SafetensorsBytes(kHeader, kData);
    bytes[7] = static_cast<char>(top);
    EXPECT_FALSE(SafetensorsFile::Open(directory.Write("x.safetensors", bytes)).ok());
  }
}

TEST(SafetensorsFileTest, FlippedBitsInTheHeaderNeverCrashOrReachOutside) {
  const std::string whole = kHeader;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string header = whole;
    header[bit / 8] = static_cast<char>(header[bit / 8] ^ (1 << (bit % 8)));
    const auto tensors = ParseSafetensorsHeader(header, kData.size(), "file");
    if (!tensors.ok()) {
      EXPECT_EQ(tensors.error().field, "file");
      continue;
    }
    for (const auto& [name, info] : *tensors) {
      EXPECT_LE(info.begin, info.end);
      EXPECT_LE(info.end, kData.size()) << name;
    }
  }
}

TEST(SafetensorsFileTest, BadEntriesAreNamed) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return OneTensor(R"({"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}");
  };
  EXPECT_EQ(Complaint(entry("F32", "[8]", "[0, 32]")), "");
  EXPECT_THAT(Complaint(entry("F99", "[8]", "[0, 32]")), HasSubstr("tensor 't': dtype 'F99' is unknown"));
  EXPECT_THAT(Complaint(entry("F32", "[7]", "[0, 32]")), HasSubstr("tensor 't': data_offsets span 32 bytes"));
  EXPECT_THAT(Complaint(entry("F16", "[8]", "[0, 32]")), HasSubstr("needs 16"));
  EXPECT_THAT(Complaint(entry("F32", "[-8]", "[0, 32]")), HasSubstr("shape must hold counts"));
  EXPECT_THAT(Complaint(entry("F32", "[8.5]", "[0, 32]")), HasSubstr("shape must hold counts"));
  EXPECT_THAT(Complaint(entry("F32", "8", "[0, 32]")), HasSubstr("has no shape"));
  EXPECT_THAT(Complaint(entry("F32", "[1,1,1,1,1,1,1,1,8]", "[0, 32]")), HasSubstr("too many dimensions"));
  EXPECT_THAT(Complaint(entry("F32", "[4611686018427387904, 8]", "[0, 32]")), HasSubstr("overflows"));
  EXPECT_THAT(Complaint(entry("F32", "[8]", "[32, 0]")), HasSubstr("ascending offsets"));
  EXPECT_THAT(Complaint(entry("F32", "[8]", "[0, 32, 64]")), HasSubstr("two ascending"));
  EXPECT_THAT(Complaint(entry("F32", "[8]", "[0, 18446744073709551615]")), HasSubstr("data_offsets span"));
  EXPECT_THAT(Complaint(entry("F32", "[8]", "[0, 18446744073709551616]")), HasSubstr("not a JSON object"));
  EXPECT_THAT(Complaint(OneTensor("[]")), HasSubstr("must be an object"));
  EXPECT_THAT(Complaint(OneTensor("{}")), HasSubstr("has no dtype"));
  EXPECT_THAT(Complaint("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(Complaint("{}  x"), HasSubstr("not a JSON object"));
}

TEST(SafetensorsFileTest, OverlapsHolesAndRestsAreRefused) {
  const auto two = [](int first_begin, int second_begin) {
    const auto entry = [](const char* name, int begin) {
      return fmt::format(R"("{}": {{"dtype": "U8", "shape": [16], "data_offsets": [{}, {}]}})", name, begin,
                         begin + 16);
    };
    return "{" + entry("one", first_begin) + "," + entry("two", second_begin) + "}";
  };
  EXPECT_EQ(Complaint(two(0, 16)), "");
  EXPECT_EQ(Complaint(two(16, 0)), "");
  EXPECT_THAT(Complaint(two(0, 15)), HasSubstr("tensor 'two': overlaps"));
  EXPECT_THAT(Complaint(two(1, 17)), HasSubstr("tensor 'one': lies after a hole"));
  EXPECT_THAT(Complaint(two(0, 17)), HasSubstr("tensor 'two': lies after a hole"));
  EXPECT_THAT(Complaint("{}"), HasSubstr("32 bytes after the last tensor"));
  EXPECT_THAT(Complaint(R"({"t": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]},
                            "t": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}})"),
              HasSubstr("tensor 't': stands twice"));
}

class ShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_.Write("one.safetensors",
                     SafetensorsBytes(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}})", "abc"));
    directory_.Write("two.safetensors",
                     SafetensorsBytes(R"({"b": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}})", "def"));
  }

  // The complaint about an index with this weight_map; empty when there is none.
  std::string ComplaintOfMap(const std::string& map) {
    directory_.Write("model.safetensors.index.json", R"({"metadata": {}, "weight_map": )" + map + "}");
    const auto result = SafetensorsDirectory::Open(directory_.path());
    return result.ok() ? "" : result.error().ToString();
  }

  TemporaryDirectory directory_;
};

TEST_F(ShardsTest, TensorsAreFoundInTheirShards) {
  ASSERT_EQ(ComplaintOfMap(R"({"a": "one.safetensors", "b": "two.safetensors"})"), "");
  const auto shards = SafetensorsDirectory::Open(directory_.path()).value();
  EXPECT_EQ(shards.files().size(), 2U);
  const auto found = shards.Find("b").value();
  EXPECT_THAT(found.file->path(), HasSubstr("two.safetensors"));
  EXPECT_THAT(shards.Find("c").error().ToString(), HasSubstr("index.json: tensor 'c' is missing"));
}

TEST_F(ShardsTest, NamesThatLeaveTheDirectoryAreRefused) {
  for (const char* name : {"../one.safetensors", "/etc/passwd", "..", ".", "", "a/b", "a\\\\b", "a\\u0000b"}) {
    EXPECT_THAT(ComplaintOfMap(fmt::format(R"({{"a": "{}"}})", name)), HasSubstr("a file beside the index")) << name;
  }
  EXPECT_THAT(ComplaintOfMap(R"({"a": 7})"), HasSubstr("a file beside the index"));
}

TEST_F(ShardsTest, MissingShardsAndTensorsAreNamed) {
  EXPECT_THAT(ComplaintOfMap(R"({"a": "three.safetensors"})"), HasSubstr("three.safetensors: can not be opened"));
  EXPECT_THAT(ComplaintOfMap(R"({"a": "two.safetensors"})"), HasSubstr("two.safetensors: tensor 'a' is missing"));
  EXPECT_THAT(ComplaintOfMap("[]"), HasSubstr("weight_map: must be an object"));
}

}  // namespace
}  // namespace roost::worker
