# The tarball in a user's folder: tarball.sh FILE
. /packages/common.sh
as_tester mkdir -p "my programs" .local/bin
as_tester tar -xzf "/packages/$1" -C "my programs"
folder="/home/tester/my programs/${1%.tar.gz}"
describes "$folder"
as_tester sh /packages/programs.sh "$folder/bin/longarm"
echo "== by a link, after the folder has moved"
as_tester mv "$folder" /home/tester/moved
as_tester ln -s /home/tester/moved/bin/longarm /home/tester/.local/bin/longarm
as_tester sh /packages/programs.sh /home/tester/.local/bin/longarm
is_not_the_systems
rm -r /home/tester/moved /home/tester/.local/bin/longarm
nothing_left /
