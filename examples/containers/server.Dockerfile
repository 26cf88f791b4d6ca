# A server of your own.  The first line is the one that makes its text huge; USER, since root may not mount in a container.
FROM hugealign:1
COPY server /usr/local/bin/server
USER 65534
CMD ["/usr/local/bin/server"]
