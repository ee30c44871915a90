cd /models
if [ "$(cat fetched 2>/dev/null)" = "$MODEL_SHA256" ]; then exit 0; fi
# Other weights, or what is left of a fetch that was cut off, make room.
rm -rf fetched model archive.tar
mkdir model
curl --fail --silent --show-error --location --retry 10 --retry-connrefused --output archive.tar "$MODEL_URL"
echo "$MODEL_SHA256  archive.tar" | sha256sum -c
tar -xf archive.tar -C model
rm archive.tar
echo "$MODEL_SHA256" >fetched
